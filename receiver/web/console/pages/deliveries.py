"""The list of deliveries, one delivery, and running the handlers of many again."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.bulk import BURY, RETRY, DeliveryPlan
from receiver.core.clock import Clock, iso
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import DeliveryReader, Reports
from receiver.core.ports.store import Controls
from receiver.core.recorded_actions import NewAction
from receiver.core.text import counted
from receiver.core.types import DeliveryKey, DeliveryState, Trigger
from receiver.core.views import explanation, run_time, with_subjects
from receiver.core.work import NewWork
from receiver.errors import UnreadableBody
from receiver.web.console.actions import ActionRun, begun_by
from receiver.web.console.delivery_content import content_of, copies_of
from receiver.web.console.filters import PAGE_SIZE, Query, WrongFilter, segment
from receiver.web.console.parts import ConsolePages, actor_of, get, go_to, post

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


class RunAgainPages(ConsolePages):
    """Run the handlers of many deliveries again."""

    @override
    def routes(self) -> list[Route]:
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
    """Read what is wanted. An empty filter is refused: it would run everything."""
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


MAX_SHOWN_WORK = 50
"""Work items on the page of a delivery, the newest."""
_MAX_KEY_IN_NAME = 80
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
"""A header has no other letters."""


class DeliveryPages(ConsolePages):
    """The list of deliveries, and one delivery."""

    @override
    def routes(self) -> list[Route]:
        return [
            get("/deliveries", self._listing),
            get("/deliveries/{key:console_id}", self._show),
            get("/deliveries/{key:console_id}/body", self._download),
            post("/deliveries/{key:console_id}/run-again", self._run_again),
        ]

    async def _listing(self, request: Request) -> Response:
        query = self._parts.query(request)
        wanted = query.deliveries(self._parts.clock.now())
        async with self._parts.access.reading() as reports:
            if wanted.job_id is not None:
                wanted = replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
            page = await reports.delivery_page(
                replace(wanted, limit=PAGE_SIZE + 1), before=query.before(), examine=self._parts.examined
            )
            rows = await with_subjects(reports, page.rows[:PAGE_SIZE])
            handlers = await reports.handler_names()
        content = {
            "rows": rows,
            "given": query.given,
            "states": list(DeliveryState),
            "handlers": handlers,
            **query.pager([one.seq for one in page.rows], page.end),
            "examined": self._parts.examined,
            "chosen_by": query.with_values(before=None) if any(query.text(name) for name in FILTERS) else "",
            "of_work": _of_work(query),
        }
        template = "deliveries_rows.html" if request.headers.get("hx-request") else "deliveries.html"
        return self._parts.pages.page(request, template, content)

    async def _show(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            detail = await reports.detail(await reports.resolve(request.path_params["key"]))
            work = [await reports.work_item(one.id) for one in detail.work[-MAX_SHOWN_WORK:]]
        summary = detail.summary
        shown = await self._parts.slow.run(content_of, detail)
        content = {
            "one": summary,
            "headers": detail.headers,
            "unreadable": detail.unreadable,
            "work": work,
            "work_count": len(detail.work),
            "why": {one.summary.id: explanation(one.summary) for one in work},
            "ran": run_time,
            "can_retry": {one.summary.id for one in work if RETRY.can_change(one.summary)},
            "can_bury": {one.summary.id for one in work if BURY.can_change(one.summary)},
            "handlers": list(dict.fromkeys(one.handler for one in detail.work)),
            "shown_at": iso(self._parts.clock.now()),
            **shown,
            "copies": copies_of(detail, self._parts.options.webhook_url, self._parts.options.sign),
        }
        return self._parts.pages.page(request, "delivery.html", content)

    async def _download(self, request: Request) -> Response:
        async with self._parts.access.reading() as reports:
            detail = await reports.detail(DeliveryKey(request.path_params["key"]))
        if detail.unreadable:
            raise UnreadableBody(detail.unreadable)
        if detail.body is None:
            return self._parts.pages.page(
                request, "error.html", {"text": "The body was pruned.", "status": 404}, status=404
            )
        name = _NOT_IN_NAMES.sub("-", detail.summary.key)[:_MAX_KEY_IN_NAME]
        return Response(
            detail.body,
            media_type="application/octet-stream",
            headers={"content-disposition": f'attachment; filename="{name}.json"'},
        )

    async def _run_again(self, request: Request) -> Response:
        key, form = request.path_params["key"], self._parts.form(request)
        handler, shown_at = form.text("handler"), form.text("shown_at")
        choice = {} if shown_at is None else {"delivery": key, "handler": handler or "", "shown_at": shown_at}
        async with self._parts.runs.forms, self._parts.access.deciding() as (reports, controls):
            detail = await reports.detail(DeliveryKey(key))
            names = [one for one in dict.fromkeys(work.handler for work in detail.work) if handler in (None, one)]
            new = [NewWork(detail.summary.seq, one, claim=False, trigger=Trigger.REPLAY) for one in names]
            about = f"{counted(len(names), 'handler') if handler is None else handler} of delivery {key}"
            action = NewAction(actor_of(request), "run again", about, len(new), choice)
            if await begun_by(reports, action) is not None:
                return go_to(request, f"/deliveries/{segment(key)}")
            async with self._parts.runs.recorded(reports, controls, action) as number:
                await controls.enqueue(new, now=self._parts.clock.now(), action=number, seen=len(new))
        return go_to(request, f"/deliveries/{segment(key)}")


def _of_work(query: Query) -> str:
    """Return the filter for the dead work of the deliveries in a listing; "" if work items have no such filter."""
    if query.text("text") is not None or query.text("state") not in (None, DeliveryState.DEAD):
        return ""
    return query.with_values(before=None, failed=None, state="dead")
