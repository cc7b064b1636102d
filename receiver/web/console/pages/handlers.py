"""Handlers: how each does, and its switch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.activity import HandlerUse, use_of
from receiver.core.ports.reports import Reports
from receiver.core.recorded_actions import NewAction
from receiver.core.text import literal
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.views import waiting_items
from receiver.core.work import HandlerReport, WorkDetail, WorkFilter
from receiver.errors import UnknownWork
from receiver.web.console.actions import SWITCHES
from receiver.web.console.filters import WrongFilter, segment
from receiver.web.console.parts import ConsolePages, actor_of, get, go_to, post
from receiver.web.console.reports import read_activity

_LATEST = 20


class HandlerPages(ConsolePages):
    """Handlers: how each does, and its switch."""

    @override
    def routes(self) -> list[Route]:
        return [
            get("/handlers", self._listing),
            get("/handlers/{name:console_id}", self._show),
            post("/handlers/{name:console_id}/{verb}", self._switch),
        ]

    async def _listing(self, request: Request) -> Response:
        handlers = await self._reports()
        async with self._parts.access.reading() as reports:
            use = await self._use(reports, [one.name for one in handlers])
        content = {
            "rows": handlers,
            "waiting": {one.name: waiting_items(one) for one in handlers},
            "use": use,
            "of_day": (await self._parts.activity.wait())[-1].handlers,
        }
        return self._parts.pages.page(request, "handlers.html", content)

    async def _reports(self) -> Sequence[HandlerReport]:
        """Return how the handlers do, with their switches of now."""
        counted = await self._parts.handlers.wait()
        async with self._parts.access.reading() as reports:
            switches = await reports.switches()
        return [replace(one, switch=switches.get(one.name, HandlerSwitch.ON)) for one in counted]

    async def _use(self, reports: Reports, names: Sequence[HandlerName]) -> Mapping[HandlerName, HandlerUse]:
        """Return how much of its limits each handler uses now."""
        workers, paces, now = await reports.workers(), await reports.paces(), self._parts.clock.now()
        return {name: use_of(name, workers, paces.get(name), now) for name in names}

    async def _show(self, request: Request) -> Response:
        name = HandlerName(request.path_params["name"])
        handlers = await self._reports()
        report = next((one for one in handlers if one.name == name), None)
        if report is None:
            text = f"No work item of a handler {name!r} is known."
            return self._parts.pages.page(request, "error.html", {"text": text, "status": 404}, status=404)
        async with self._parts.access.reading() as reports:
            dead = [
                one
                async for one in reports.work_items(
                    WorkFilter(handler=literal(name), state=WorkState.DEAD, limit=_LATEST)
                )
            ]
            activity = await read_activity(reports, self._parts.clock.now(), name)
            latest = await _work_item(reports, report.failed_id)
            use = (await self._use(reports, [name]))[name]
        content = {
            "one": report,
            "waiting": waiting_items(report),
            "dead": dead,
            "latest": latest,
            "activity": activity,
            "use": use,
        }
        return self._parts.pages.page(request, "handler.html", content)

    async def _switch(self, request: Request) -> Response:
        name, verb = HandlerName(request.path_params["name"]), request.path_params["verb"]
        if verb not in SWITCHES:
            raise WrongFilter(f"there is no switch {verb!r}")
        async with self._parts.access.deciding() as (reports, controls):
            if name not in await reports.handler_names():
                raise WrongFilter(f"no work item of a handler {name!r} is stored")
            before = (await reports.switches()).get(name, HandlerSwitch.ON)
            if self._parts.form(request).text("only_if") not in (None, before.value):
                text = f"The handler is {before.value} now: it was switched since. Nothing was changed."
                return self._parts.pages.page(request, "error.html", {"text": text, "status": 409}, status=409)
            choice = {"handler": name, "before": before.value}
            action = NewAction(actor_of(request), verb, f"handler {name}", 1, choice)
            async with self._parts.runs.recorded(reports, controls, action) as number:
                await controls.switch(name, SWITCHES[verb])
                await controls.advance_action(number, seen=1, changed=1, now=self._parts.clock.now())
        return go_to(request, f"/handlers/{segment(name)}")


async def _work_item(reports: Reports, work_id: int | None) -> WorkDetail | None:
    """Return a work item, None if it was pruned since it was counted."""
    try:
        return None if work_id is None else await reports.work_item(work_id)
    except UnknownWork:
        return None
