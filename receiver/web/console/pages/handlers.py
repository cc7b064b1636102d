"""Handlers: how each does, and its switch."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.views import waiting_items
from receiver.core.work import WorkFilter
from receiver.web.console.activity import read_activity
from receiver.web.console.filters import WrongFilter
from receiver.web.console.parts import ConsoleParts, client_of, get, go_to, post

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
            get("/handlers/{name}", self._show),
            post("/handlers/{name}/{verb}", self._switch),
        ]

    async def _listing(self, request: Request) -> Response:
        handlers = await self._parts.handlers.get() or ()
        content = {"rows": handlers, "waiting": {one.name: waiting_items(one) for one in handlers}}
        return self._parts.pages.page(request, "handlers.html", content)

    async def _show(self, request: Request) -> Response:
        name = HandlerName(request.path_params["name"])
        report = next((one for one in await self._parts.handlers.get() or () if one.name == name), None)
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
        return go_to(request, f"/handlers/{name}")


def _literal(name: str) -> str:
    """Return a glob that matches only this name."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
