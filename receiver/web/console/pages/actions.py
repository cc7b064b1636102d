"""Actions: what was done, how far each is, and how it is stopped, continued or undone."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.ports.reports import Reports
from receiver.core.recorded_actions import RecordedAction
from receiver.core.types import HandlerSwitch
from receiver.core.work import HandlerReport
from receiver.web.console.actions import SWITCHES, Undo, undo_filter, undo_of_other, undo_of_switch, undo_of_work
from receiver.web.console.filters import PAGE_SIZE, segment
from receiver.web.console.pages.work_items import ACTIONS
from receiver.web.console.parts import ConsolePages, get, go_to, post

_PAGE = 500
_PATHS = {action.verb: path for path, action in ACTIONS.items()}


class ActionPages(ConsolePages):
    """Actions: what was done, how far each is, and how it is stopped, continued or undone."""

    @override
    def routes(self) -> list[Route]:
        return [
            get("/actions", self._listing),
            get("/actions/{number:console_row}", self._show),
            post("/actions/{number:console_row}/stop", self._stop),
        ]

    async def _listing(self, request: Request) -> Response:
        query = self._parts.query(request)
        async with self._parts.access.reading() as reports:
            found = await reports.actions(limit=PAGE_SIZE + 1, before=query.before())
        rows = found[:PAGE_SIZE]
        content = {
            "rows": rows,
            "state": {one.id: self._state(one) for one in rows},
            "next": query.with_values(before=rows[-1].id) if len(found) > PAGE_SIZE else None,
            "first": query.with_values(before=None),
            "is_first": query.before() is None,
        }
        return self._parts.pages.page(request, "actions.html", content)

    async def _show(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            one = await reports.action(request.path_params["number"])
            state = self._state(one)
            undo = None if state == "running" or not one.changed else await self._undo(reports, one)
        content = {
            "one": one,
            "state": state,
            "undo": undo,
            "can_stop": self._parts.runs.is_running(one.id),
            "rest_page": _rest_page(one),
        }
        return self._parts.pages.page(request, "action.html", content)

    async def _stop(self, request: Request) -> Response:
        number = request.path_params["number"]
        self._parts.runs.stop(number)
        return go_to(request, f"/actions/{number}")

    def _state(self, one: RecordedAction) -> str:
        """Say in a word how far an action is."""
        if self._parts.runs.is_running(one.id) or one.goes_on(self._parts.clock.now()):
            return "running"
        return "stopped" if one.error is not None or one.ended_at is None else "done"

    async def _undo(self, reports: Reports, one: RecordedAction) -> Undo:
        wanted = undo_filter(one)
        if wanted is not None:
            return undo_of_work(one, (await reports.work_plan(wanted)).count)
        if one.what.verb in SWITCHES:
            handler = await self._handler(reports, one.what.choice.get("handler", ""))
            return undo_of_switch(one, handler, await _later_switch(reports, one))
        return undo_of_other(one)

    async def _handler(self, reports: Reports, name: str) -> HandlerReport | None:
        """Return how a handler does, with its switch of now."""
        counted = await self._parts.handlers.wait()
        report = next((one for one in counted if one.name == name), None)
        if report is None:
            return None
        switch = (await reports.switches()).get(report.name, HandlerSwitch.ON)
        return HandlerReport(report.name, switch, report.counts, report.last_error, report.latency)


def _rest_page(one: RecordedAction) -> str | None:
    """Return the page with the plan for the rest of an action; None for one that cannot go on."""
    path, job_id = _PATHS.get(one.what.verb), one.what.choice.get("job")
    if one.what.verb in ("backfill", "fetch") and job_id is not None:
        return f"/jobs/{segment(job_id)}"
    return None if path is None or not one.what.choice else f"/work-items/{path}/plan?{urlencode(one.what.choice)}"


async def _later_switch(reports: Reports, one: RecordedAction) -> RecordedAction | None:
    """Return an action that has switched the same handler since."""
    before: int | None = None
    while rows := await reports.actions(limit=_PAGE, before=before):
        for row in rows:
            if row.id <= one.id:
                return None
            is_same = row.what.choice.get("handler") == one.what.choice.get("handler")
            if is_same and row.changed and row.what.verb in SWITCHES:
                return row
        before = rows[-1].id
    return None
