"""The first page: is all well, and what needs somebody."""

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from receiver.core.attention import Concern, ConcernKind, concerns, late_workers, read_attention, switched_off
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter, warnings
from receiver.core.types import WorkState
from receiver.core.views import waiting_items, with_subjects
from receiver.web.console.charts import bars
from receiver.web.console.parts import ConsoleParts, get
from receiver.web.console.segments import segment

_LATEST = 12
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ShownConcern:
    """Something that needs somebody, and the page that tells more."""

    tone: str
    """`bad` or `warn`."""
    text: str
    """What it is."""
    link: str
    """Path of the page."""


class OverviewPage:
    """The first page: is all well, and what needs somebody."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Return the routes of these pages."""
        return [get("/", self._show)]

    async def _show(self, request: Request) -> Response:
        now = self._parts.clock.now()
        handlers = await self._parts.handlers.wait()
        async with self._parts.access.reading() as reports:
            attention = await read_attention(reports, now)
            facts = await reports.facts()
            workers = await reports.workers()
            jobs = [one async for one in reports.jobs(JobFilter(limit=_LATEST))]
            newest = [one async for one in reports.deliveries(DeliveryFilter(limit=_LATEST))]
            rows = await with_subjects(reports, newest)
        traffic = self._parts.traffic
        traffic.look()
        content = {
            "hour": bars(traffic.last(_HOUR, _MINUTE), step=_MINUTE),
            "day": bars(traffic.last(_DAY, 15 * _MINUTE), step=15 * _MINUTE),
            "is_counted": traffic.is_counted,
            "backlog": attention.backlog,
            "facts": facts,
            "handlers": handlers,
            "activity": await self._parts.activity.wait(),
            "workers": workers,
            "late": {one.sign.name for one in workers if one.is_late(now)},
            "waiting": {one.name: waiting_items(one) for one in handlers},
            "dead_count": sum(one.counts.get(WorkState.DEAD, 0) for one in handlers),
            "rows": rows,
            "jobs": jobs,
            "job_warnings": {one.job_id: warnings(one, now=now) for one in jobs},
            "concerns": [
                ShownConcern(one.tone, one.text, _link(one))
                for one in (
                    *concerns(attention, self._parts.options.limits, now),
                    *switched_off(handlers),
                    *late_workers(workers, now),
                )
            ],
            "last": newest[0].received_at if newest else None,
        }
        template = "overview_live.html" if request.headers.get("hx-request") else "overview.html"
        return self._parts.pages.page(request, template, content)


def _link(concern: Concern) -> str:
    match concern.kind:
        case ConcernKind.DEAD:
            return f"/work-items?{urlencode({'handler': concern.subject, 'state': 'dead'})}"
        case ConcernKind.BACKLOG:
            return "/work-items?state=waiting"
        case ConcernKind.QUARANTINED:
            return "/quarantine?since=1d"
        case ConcernKind.SWITCHED_OFF:
            return f"/handlers/{segment(concern.subject)}"
        case ConcernKind.LATE_WORKER:
            return "/#workers"
        case _:
            return "/deliveries"
