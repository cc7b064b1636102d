"""Run the handlers of many deliveries again: the plan for a filter, and the action."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.bulk import DeliveryPlan
from receiver.core.clock import Clock, iso
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import DeliveryReader, Reports
from receiver.core.ports.store import Controls
from receiver.core.recorded_actions import NewAction
from receiver.core.types import Trigger
from receiver.core.work import NewWork
from receiver.web.console.actions import ActionRun, begun_by
from receiver.web.console.filters import Query, WrongFilter
from receiver.web.console.parts import ConsoleParts, actor_of, get, go_to, post

FILTERS = ("type", "job", "state", "handler", "since", "until", "text", "failed")
_CHUNK = 100
"""Work items of one transaction. It is small, because acks wait for the write lock."""


@dataclass(frozen=True, slots=True)
class _WantedEvents:
    """The deliveries that an action is about."""

    given: dict[str, str]
    """The filter as the next page is asked for it; moments in it do not move."""
    wanted: DeliveryFilter

    @property
    def about(self) -> str:
        """Say it in words."""
        return "deliveries with " + ", ".join(f"{name} {value}" for name, value in self.given.items())


class RunAgainPages:
    """Run the handlers of many deliveries again."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [get("/run-again/plan", self._plan), post("/run-again", self._act)]

    async def _plan(self, request: Request) -> Response:
        chosen = _chosen(self._parts.query(request), self._parts.clock.now())
        async with self._parts.access.reading() as reports:
            plan = await reports.plan(await _resolved(reports, chosen.wanted))
        return self._plan_page(request, chosen, plan)

    def _plan_page(
        self, request: Request, chosen: _WantedEvents, plan: DeliveryPlan, *, has_grown: bool = False
    ) -> Response:
        content = {
            "has_grown": has_grown,
            "plan": plan,
            "chosen": chosen,
            "can_run": plan.count - plan.without_body,
            "planned_at": iso(self._parts.clock.now()),
        }
        return self._parts.pages.page(request, "run_again_plan.html", content, status=409 if has_grown else 200)

    async def _act(self, request: Request) -> Response:
        form = self._parts.form(request)
        chosen = _chosen(form, self._parts.clock.now())
        async with self._parts.access.reading() as reports:
            wanted = await _resolved(reports, chosen.wanted)
            plan = await reports.plan(wanted)
        planned, count = form.number("count"), plan.count - plan.without_body
        if planned is not None and count > planned:
            return self._plan_page(request, chosen, plan, has_grown=True)
        planned_at, clock = form.text("planned_at"), self._parts.clock
        choice = {} if planned_at is None else chosen.given | {"planned_at": planned_at}
        action = NewAction(actor_of(request), "run again", chosen.about, count, choice)
        async with self._parts.runs.forms:
            async with self._parts.access.reading() as reports:
                number = await begun_by(reports, action)
            if number is None:
                number = await self._parts.runs.start(action, lambda *faces: _carry_out(clock, wanted, *faces))
        return go_to(request, f"/actions/{number}")


def _chosen(query: Query, now: datetime) -> _WantedEvents:
    """Read what is wanted. Nothing at all is refused, so that nobody runs everything by accident."""
    given = {name: value for name in FILTERS if (value := query.text(name)) is not None}
    if not given:
        raise WrongFilter("choose deliveries by a filter")
    wanted = query.deliveries(now)
    # What arrives after the plan is not in it, and a span of time does not move.
    wanted = replace(wanted, until=wanted.until or now)
    given |= {name: iso(at) for name, at in (("since", wanted.since), ("until", wanted.until)) if at is not None}
    return _WantedEvents(given, wanted)


async def _resolved(reports: Reports, wanted: DeliveryFilter) -> DeliveryFilter:
    """Return the filter with the whole id of its job."""
    return wanted if wanted.job_id is None else replace(wanted, job_id=await reports.resolve_job(wanted.job_id))


async def _carry_out(
    clock: Clock, wanted: DeliveryFilter, reports: Reports, controls: Controls, run: ActionRun
) -> None:
    """Make work, the oldest delivery first, so that lanes keep the order of arrival."""
    gathered: list[NewWork] = []
    seen = 0
    async for new in _work_of(reports, wanted):
        gathered += new
        seen += 1
        if len(gathered) >= _CHUNK or seen >= _CHUNK:
            await _make(controls, run, gathered, seen, clock)
            gathered, seen = [], 0
            if run.must_stop:
                return
    await _make(controls, run, gathered, seen, clock)


async def _make(controls: Controls, run: ActionRun, new: list[NewWork], seen: int, clock: Clock) -> None:
    await controls.enqueue(new, now=clock.now(), action=run.number, seen=seen)


async def _work_of(reports: DeliveryReader, wanted: DeliveryFilter) -> AsyncIterator[list[NewWork]]:
    """Yield for each delivery new work for every handler that had some of it."""
    async for stored in reports.iter_deliveries(wanted):
        detail = await reports.detail(stored.delivery.key)
        handlers = dict.fromkeys(one.handler for one in detail.work)
        yield [NewWork(stored.seq, name, claim=False, trigger=Trigger.REPLAY) for name in handlers]
