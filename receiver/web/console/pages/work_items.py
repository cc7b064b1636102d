"""Work items: dead letters in groups, the list, one item, and retrying or burying many with a plan first."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.actions import BURY, RETRY, WorkAction
from receiver.core.bulk import WorkPlan
from receiver.core.chosen_work import ChosenWork, choose_matching, choose_named
from receiver.core.clock import iso
from receiver.core.ports.controls import Controls
from receiver.core.ports.reports import Reports
from receiver.core.types import WorkState
from receiver.core.views import explanation, run_time
from receiver.core.work import WorkFilter
from receiver.web.console.action_runs import ActionRun
from receiver.web.console.filters import PAGE_SIZE, Query, WrongFilter
from receiver.web.console.parts import ConsoleParts, client_of, get, go_to, post

_ACTIONS = {"retry": RETRY, "bury": BURY}
_FILTERS = ("type", "job", "since", "until", "handler", "state")
_MAX_NAMED = 200

Change = Callable[[Controls, Sequence[int]], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an action is about, as its pages hand it on: single items, or a filter."""

    action: WorkAction
    ids: tuple[int, ...]
    given: dict[str, str]
    work: WorkFilter

    @property
    def about(self) -> str:
        """Say it in words."""
        if self.ids:
            return "work item " + ", ".join(f"#{one}" for one in self.ids[:5]) + (" …" if len(self.ids) > 5 else "")
        return "work items with " + ", ".join(f"{name} {value}" for name, value in self.given.items())


class WorkItemPages:
    """Work items: dead letters in groups, the list, one item, and retrying or burying many with a plan first."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [
            get("/work-items", self._listing),
            get("/work-items/{work_id:console_row}", self._show),
            get("/work-items/{verb}/plan", self._plan),
            post("/work-items/{verb}", self._act),
            get("/actions", self._actions),
            get("/actions/{number:console_row}", self._one_action),
        ]

    async def _listing(self, request: Request) -> Response:
        query = self._parts.query(request)
        wanted = query.work(self._parts.clock.now())
        async with self._parts.access.reading() as reports:
            if wanted.job_id is not None:
                wanted = replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
            found = [
                one async for one in reports.work_items(replace(wanted, limit=PAGE_SIZE + 1), before=query.before())
            ]
            handlers = await reports.handler_names()
        content = {
            "rows": found[:PAGE_SIZE],
            "why": {one.id: explanation(one) for one in found},
            "given": query.given,
            "states": list(WorkState),
            "handlers": handlers,
            "next": query.with_values(before=found[PAGE_SIZE - 1].id) if len(found) > PAGE_SIZE else None,
            "first": query.with_values(before=None),
            "is_first": query.before() is None,
            "narrows": any(query.text(name) for name in _FILTERS),
            "chosen_by": query.with_values(before=None),
        }
        return self._parts.pages.page(request, "work_items.html", content)

    async def _show(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            detail = await reports.work_item(request.path_params["work_id"])
        summary = detail.summary
        content = {
            "one": summary,
            "attempts": detail.attempts,
            "why": explanation(summary),
            "ran": run_time,
            "can_retry": RETRY.can_change(summary),
            "can_bury": BURY.can_change(summary),
        }
        return self._parts.pages.page(request, "work_item.html", content)

    async def _plan(self, request: Request) -> Response:
        wanted = _wanted(self._parts, request.path_params["verb"], self._parts.query(request))
        async with self._parts.access.reading() as reports:
            chosen = await _choose(reports, wanted)
        return self._plan_page(request, wanted, chosen)

    def _plan_page(
        self, request: Request, wanted: _Wanted, chosen: ChosenWork, *, has_grown: bool = False
    ) -> Response:
        content = {
            "has_grown": has_grown,
            "action": wanted.action,
            "chosen": chosen,
            "about": wanted.about,
            "remarks": list(chosen.remarks(wanted.action)),
            "given": wanted.given,
            "ids": wanted.ids,
            "kinds": {kind: chosen.counts_by(kind).most_common(10) for kind in ("handler", "type", "state")},
        }
        return self._parts.pages.page(request, "work_plan.html", content, status=409 if has_grown else 200)

    async def _act(self, request: Request) -> Response:
        form = self._parts.form(request)
        wanted = _wanted(self._parts, request.path_params["verb"], form)
        reason = form.text("reason") or "buried in the console"
        change = _change(self._parts, wanted.action, reason)
        async with self._parts.access.reading() as reports:
            chosen = await _choose(reports, wanted)
        chosen = _as_planned(chosen, form)
        planned = form.number("count")
        if planned is not None and chosen.plan.count > planned:
            return self._plan_page(request, wanted, chosen, has_grown=True)
        run = self._parts.runs.start(
            wanted.action.verb,
            wanted.about,
            client_of(request),
            planned=chosen.plan.count,
            carry_out=lambda run: _carry_out(self._parts, run, chosen, wanted.action, change),
        )
        return go_to(request, f"/actions/{run.id}")

    async def _actions(self, request: Request) -> Response:
        return self._parts.pages.page(request, "actions.html", {"runs": self._parts.runs.newest_first()})

    async def _one_action(self, request: Request) -> Response:
        run = self._parts.runs.find(request.path_params["number"])
        if run is None:
            text = "This action is not known any more; the log tells of it."
            return self._parts.pages.page(request, "error.html", {"text": text, "status": 404}, status=404)
        return self._parts.pages.page(request, "action.html", {"run": run})


def _wanted(parts: ConsoleParts, verb: str, query: Query) -> _Wanted:
    """Read what an action is about. Nothing at all is refused, so that nobody changes everything by accident."""
    if verb not in _ACTIONS:
        raise WrongFilter(f"there is no action {verb!r} on work items")
    ids = query.numbers("ids", _MAX_NAMED)
    given = {name: value for name in _FILTERS if (value := query.text(name)) is not None}
    if not ids and not given:
        raise WrongFilter("choose work items: by a filter, or one by one")
    work = query.work(parts.clock.now())
    # A span of time must not move between the plan and the action, so from here on it is absolute.
    given |= {name: iso(at) for name, at in (("since", work.since), ("until", work.until)) if at is not None}
    return _Wanted(_ACTIONS[verb], ids, {} if ids else given, work)


async def _choose(reports: Reports, wanted: _Wanted) -> ChosenWork:
    if wanted.ids:
        return await choose_named(reports, wanted.action, wanted.ids)
    work = wanted.work
    if work.job_id is not None:
        work = replace(work, job_id=await reports.resolve_job(work.job_id))
    return await choose_matching(reports, wanted.action, work)


def _as_planned(chosen: ChosenWork, form: Query) -> ChosenWork:
    """Leave out what came after the plan was shown."""
    last = form.number("last_id")
    if chosen.named or last is None:
        return chosen
    plan: WorkPlan = replace(chosen.plan, last_id=min(chosen.plan.last_id, last))
    return replace(chosen, plan=plan)


def _change(parts: ConsoleParts, action: WorkAction, reason: str) -> Change:
    if action is RETRY:
        return lambda controls, ids: controls.retry(ids, now=parts.clock.now())
    return lambda controls, ids: controls.bury(ids, reason, now=parts.clock.now())


async def _carry_out(
    parts: ConsoleParts, run: ActionRun, chosen: ChosenWork, action: WorkAction, change: Change
) -> None:
    async with parts.access.deciding() as (reports, controls):
        async for ids in chosen.ids(reports, action):
            if run.must_stop:
                return
            run.changed += await change(controls, ids)
            run.seen += len(ids)
