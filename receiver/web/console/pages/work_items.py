"""Work items: the list, one item, the dead in groups, and changing many with a plan first."""

from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.bulk import BURY, RETRY, TAKE_BACK, WorkAction, WorkPlan
from receiver.core.choosing import ChosenWork, choose_matching, choose_named, described, filter_words
from receiver.core.clock import Clock
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls
from receiver.core.recorded_actions import NewAction
from receiver.core.types import WorkState
from receiver.core.views import explanation, run_time
from receiver.core.work import EXAMINED, WorkFilter, grouped
from receiver.web.console.actions import ActionRun
from receiver.web.console.filters import PAGE_SIZE, Query, WrongFilter
from receiver.web.console.parts import ConsolePages, ConsoleParts, actor_of, get, go_to, post

ACTIONS = {"retry": RETRY, "bury": BURY, "take-back": TAKE_BACK}
"""By their names in addresses."""
_FILTERS = ("type", "job", "since", "until", "handler", "state", "error", "action")
_MAX_NAMED = 200


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an action is about, as its pages hand it on: single items, or a filter."""

    action: WorkAction
    path: str
    """The action's name in addresses."""
    ids: tuple[int, ...]
    given: dict[str, str]
    work: WorkFilter
    reason: str | None
    """Why they are buried."""

    @property
    def choice(self) -> dict[str, str]:
        """What the page of its plan is asked for, so that the action can go on."""
        chosen = {"ids": ",".join(map(str, self.ids))} if self.ids else self.given
        return chosen | ({} if self.reason is None else {"reason": self.reason})

    @property
    def about(self) -> str:
        """Say it in words."""
        return described(self.ids, self.given)


class WorkItemPages(ConsolePages):
    """Work items: the list, one item, and changing many with a plan first."""

    @override
    def routes(self) -> list[Route]:
        return [
            get("/work-items", self._listing),
            get("/work-items/{work_id:console_row}", self._show),
            get("/work-items/{verb}/plan", self._plan),
            post("/work-items/{verb}", self._act),
        ]

    async def _listing(self, request: Request) -> Response:
        query = self._parts.query(request)
        wanted = query.work(self._parts.clock.now())
        async with self._parts.access.reading() as reports:
            if wanted.job_id is not None:
                wanted = replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
            page = await reports.work_page(
                replace(wanted, limit=PAGE_SIZE + 1), before=query.before(), examine=self._parts.examined
            )
            handlers = await reports.handler_names()
        content = {
            "rows": page.rows[:PAGE_SIZE],
            "why": {one.id: explanation(one) for one in page.rows},
            "given": query.given,
            "states": list(WorkState),
            "handlers": handlers,
            **query.pager([one.id for one in page.rows], page.end),
            "examined": self._parts.examined,
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
            "action_path": wanted.path,
            "undoes": wanted.work.action,
            "reason": wanted.reason,
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
        async with self._parts.access.reading() as reports:
            found = await _choose(reports, wanted)
            chosen = await _as_planned(reports, found, form)
        planned = form.number("count")
        if planned is not None and chosen.plan.count > planned:
            return self._plan_page(request, wanted, found, has_grown=True)
        action = NewAction(actor_of(request), wanted.action.verb, wanted.about, chosen.plan.count, wanted.choice)
        number = await self._parts.runs.start(
            action, lambda *faces: _carry_out(self._parts.clock, wanted, chosen, *faces)
        )
        return go_to(request, f"/actions/{number}")


def _wanted(parts: ConsoleParts, path: str, query: Query) -> _Wanted:
    """Read what an action is about. An empty filter is refused: it would change everything."""
    if path not in ACTIONS:
        raise WrongFilter(f"there is no action {path!r} on work items")
    ids = query.numbers("ids", _MAX_NAMED)
    work = query.work(parts.clock.now())
    # A span of time must not move between the plan and the action, so from here on it is absolute.
    given = filter_words(work)
    if not ids and not given:
        raise WrongFilter("choose work items: by a filter, or one by one")
    if ACTIONS[path].untried and work.action is None:
        raise WrongFilter("name the action whose items are taken back")
    return _Wanted(ACTIONS[path], path, ids, {} if ids else given, work, query.text("reason"))


async def _choose(reports: Reports, wanted: _Wanted) -> ChosenWork:
    if wanted.ids:
        return await choose_named(reports, wanted.action, wanted.ids)
    work = wanted.work
    if work.job_id is not None:
        work = replace(work, job_id=await reports.resolve_job(work.job_id))
    return await choose_matching(reports, wanted.action, work)


async def _as_planned(reports: Reports, found: ChosenWork, form: Query) -> ChosenWork:
    """Leave out what came after the plan was shown: where work fails all the time, more is always there."""
    last = form.number("last_id")
    if found.named or last is None or last >= found.plan.last_id:
        return found
    plan: WorkPlan = replace(found.plan, last_id=last)
    count = sum([len(ids) async for ids in reports.work_ids(found.wanted, plan)])
    return replace(found, plan=replace(plan, count=count))


async def _carry_out(
    clock: Clock, wanted: _Wanted, chosen: ChosenWork, reports: Reports, controls: Controls, run: ActionRun
) -> None:
    async for ids in chosen.ids(reports, wanted.action):
        if run.must_stop:
            return
        now = clock.now()
        if wanted.action is RETRY:
            await controls.retry(ids, now=now, action=run.number)
        elif wanted.action is BURY:
            await controls.bury(ids, wanted.reason or "buried in the console", now=now, action=run.number)
        else:
            reason = f"action #{wanted.work.action} was undone"
            await controls.take_back(ids, reason, now=now, action=run.number)


class DeadLetterPage(ConsolePages):
    """Dead letters in groups."""

    @override
    def routes(self) -> list[Route]:
        return [get("/dead", self._show)]

    async def _show(self, request: Request) -> Response:
        wanted = WorkFilter(state=WorkState.DEAD, limit=EXAMINED)
        async with self._parts.access.reading() as reports:
            items = [one async for one in reports.work_items(wanted)]
        content = {"groups": grouped(items), "is_cut": len(items) == EXAMINED, "examined": EXAMINED}
        return self._parts.pages.page(request, "dead.html", content)
