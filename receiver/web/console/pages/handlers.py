"""Handlers: how each does, and its switch."""

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.views import waiting_items
from receiver.core.work import HandlerReport, WorkFilter
from receiver.web.console.activity import read_activity
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
            "rows": handlers,
            "waiting": {one.name: waiting_items(one) for one in handlers},
            "of_day": (await self._parts.activity.wait())[-1].handlers,
        }
        return self._parts.pages.page(request, "handlers.html", content)

    async def _reports(self) -> Sequence[HandlerReport]:
        """Return how the handlers do, with their switches of now."""
        counted = await self._parts.handlers.wait()
        async with self._parts.access.reading() as reports:
            switches = await reports.switches()
        return [replace(one, switch=switches.get(one.name, HandlerSwitch.ON)) for one in counted]

    async def _show(self, request: Request) -> Response:
        name = HandlerName(request.path_params["name"])
        handlers = await self._reports()
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
            activity = await read_activity(reports, self._parts.clock.now(), name)
            latest = await reports.work_item(dead[0].id) if dead else None
        content = {
            "one": report,
            "waiting": waiting_items(report),
            "dead": dead,
            "latest": latest,
            "activity": activity,
        }
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
