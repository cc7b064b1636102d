"""Handlers: how each does, and its switch."""

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.views import waiting_items
from receiver.core.work import HandlerReport, WorkFilter
from receiver.web.console.filters import WrongFilter
from receiver.web.console.parts import ConsoleParts, client_of, get, go_to, post
from receiver.web.console.segments import segment

_SWITCHES = {"pause": HandlerSwitch.PAUSED, "resume": HandlerSwitch.ON, "disable": HandlerSwitch.DISABLED}
_LATEST = 20


class HandlerPages:
    """Handlers: how each does, and its switch."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [
            get("/handlers", self._listing),
            get("/handlers/{name:console_id}", self._show),
            post("/handlers/{name:console_id}/{verb}", self._switch),
        ]

    async def _listing(self, request: Request) -> Response:
        handlers = await self._reports()
        content = {
            "is_read": handlers is not None,
            "rows": handlers or (),
            "waiting": {one.name: waiting_items(one) for one in handlers or ()},
        }
        return self._parts.pages.page(request, "handlers.html", content)

    async def _reports(self) -> Sequence[HandlerReport] | None:
        """Return how the handlers do, with their switches of now; None if nothing was counted yet."""
        counted = await self._parts.handlers.get()
        async with self._parts.access.reading() as reports:
            switches = await reports.switches()
        return counted and [replace(one, switch=switches.get(one.name, HandlerSwitch.ON)) for one in counted]

    def _being_read(self, request: Request) -> Response:
        text = "The work of all handlers is being counted. Reload the page in a moment."
        answer = self._parts.pages.page(request, "error.html", {"text": text, "status": 503}, status=503)
        answer.headers["retry-after"] = "1"
        return answer

    async def _show(self, request: Request) -> Response:
        name = HandlerName(request.path_params["name"])
        handlers = await self._reports()
        if handlers is None:
            return self._being_read(request)
        report = next((one for one in handlers if one.name == name), None)
        if report is None:
            raise WrongFilter(f"no work item of a handler {name!r} is known")
        async with self._parts.access.reading() as reports:
            dead = [
                one
                async for one in reports.work_items(
                    WorkFilter(handler=_literal(name), state=WorkState.DEAD, limit=_LATEST)
                )
            ]
            latest = await reports.work_item(dead[0].id) if dead else None
        content = {"one": report, "waiting": waiting_items(report), "dead": dead, "latest": latest}
        return self._parts.pages.page(request, "handler.html", content)

    async def _switch(self, request: Request) -> Response:
        name, verb = HandlerName(request.path_params["name"]), request.path_params["verb"]
        if verb not in _SWITCHES:
            raise WrongFilter(f"there is no switch {verb!r}")
        async with self._parts.access.deciding() as (reports, controls):
            if name not in await reports.handler_names():
                raise WrongFilter(f"no work item of a handler {name!r} is stored")
            await controls.switch(name, _SWITCHES[verb])
        self._parts.runs.done(verb, f"handler {name}", client_of(request), changed=1)
        return go_to(request, f"/handlers/{segment(name)}")


def _literal(name: str) -> str:
    """Return a glob that matches only this name."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
