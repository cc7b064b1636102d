"""The first page: is all well, and what needs somebody."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.activity import MINUTE
from receiver.core.deliveries import DeliveryFilter
from receiver.core.durations import in_words
from receiver.core.jobs import JobFilter, warnings
from receiver.core.quarantine import QuarantinedSummary, QuarantineFilter
from receiver.core.text import counted
from receiver.core.types import HandlerSwitch, WorkState
from receiver.core.views import waiting_items, with_subjects
from receiver.core.work import Backlog, HandlerReport, WorkFilter
from receiver.core.workers import WorkerReport
from receiver.web.console.charts import bars
from receiver.web.console.dead_letters import EXAMINED, DeadGroup, grouped
from receiver.web.console.newest_jobs import newest_jobs
from receiver.web.console.parts import ConsoleParts, get
from receiver.web.console.segments import segment
from receiver.web.console.traffic import by_span, last_steps

_LATEST = 12
_LATE = timedelta(minutes=5)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs somebody, and the page that tells more."""

    tone: str
    text: str
    link: str


class OverviewPage:
    """The first page: is all well, and what needs somebody."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [get("/", self._show)]

    async def _show(self, request: Request) -> Response:
        now = self._parts.clock.now()
        handlers, activity = await self._parts.handlers.wait(), await self._parts.activity.wait()
        async with self._parts.access.reading() as reports:
            backlog = await reports.backlog(now)
            facts = await reports.facts()
            workers = await reports.workers()
            dead_items = WorkFilter(state=WorkState.DEAD, limit=EXAMINED)
            dead = grouped([one async for one in reports.work_items(dead_items)])
            refused = QuarantineFilter(since=now - _DAY, limit=_LATEST)
            quarantined = [one async for one in reports.quarantined_requests(refused)]
            jobs, _ = await newest_jobs(reports, JobFilter(), most=_LATEST)
            newest = [one async for one in reports.deliveries(DeliveryFilter(limit=_LATEST))]
            rows = await with_subjects(reports, newest)
            arrived = await reports.arrivals(now - _DAY)
        content = {
            "hour": _arrivals(arrived, now, _HOUR, MINUTE),
            "day": _arrivals(arrived, now, _DAY, 15 * MINUTE),
            "backlog": backlog,
            "facts": facts,
            "handlers": handlers,
            "activity": activity,
            "of_day": activity[-1].handlers,
            "workers": workers,
            "late": {one.sign.name for one in workers if one.is_late(now)},
            "waiting": {one.name: waiting_items(one) for one in handlers},
            "dead_count": sum(one.counts.get(WorkState.DEAD, 0) for one in handlers),
            "rows": rows,
            "jobs": jobs,
            "job_warnings": {one.job_id: warnings(one, now=now) for one in jobs},
            "concerns": [*_concerns(backlog, handlers, dead, quarantined), *_late_workers(workers, now)],
            "last": newest[0].received_at if newest else None,
        }
        template = "overview_live.html" if request.headers.get("hx-request") else "overview.html"
        return self._parts.pages.page(request, template, content)


def _arrivals(minutes: Mapping[datetime, int], now: datetime, span: timedelta, step: timedelta) -> Markup:
    return bars(by_span(minutes, last_steps(now, span, step), step), step=step)


def _concerns(
    backlog: Backlog,
    handlers: Sequence[HandlerReport],
    dead: Sequence[DeadGroup],
    quarantined: Sequence[QuarantinedSummary],
) -> Iterator[Concern]:
    """Yield what needs somebody, the worst first."""
    for group in dead[:5]:
        query = urlencode({"handler": group.handler, "state": "dead"})
        yield Concern(
            "bad",
            f"{group.count:,} dead in {group.handler} since {group.first_at:%Y-%m-%d %H:%M} UTC: {group.error}",
            f"/work-items?{query}",
        )
    if backlog.oldest_waiting is not None and backlog.oldest_waiting > _LATE:
        minutes = backlog.oldest_waiting.total_seconds() / 60
        yield Concern(
            "bad",
            f"The oldest work has been due for {minutes:,.0f} minutes. Is a worker running?",
            "/work-items?state=waiting",
        )
    for one in handlers:
        if one.switch is not HandlerSwitch.ON:
            items = counted(waiting_items(one), "item")
            yield Concern(
                "warn", f"{one.name} is {one.switch.value}: {items} not started", f"/handlers/{segment(one.name)}"
            )
    if quarantined:
        reasons = ", ".join(sorted({one.reason for one in quarantined}))
        number = f"{_LATEST}+ requests" if len(quarantined) == _LATEST else counted(len(quarantined), "request")
        yield Concern("warn", f"{number} in quarantine in the last 24 hours: {reasons}", "/quarantine?since=1d")


def _late_workers(workers: Sequence[WorkerReport], now: datetime) -> Iterator[Concern]:
    """Yield the workers that have not been seen for a while."""
    for one in workers:
        if one.is_late(now):
            text = f"The worker {one.sign.name} has not been seen for {in_words(one.unseen(now))}"
            yield Concern("warn", f"{text}: it hangs, or was killed", "/#workers")
