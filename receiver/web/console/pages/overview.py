"""The first page, and the stream by which open pages renew themselves (Server-Sent Events)."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from markupsafe import Markup
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from typing_extensions import override

from receiver.core.activity import MINUTE
from receiver.core.attention import Concern, ConcernKind, concerns, late_workers, read_attention, switched_off
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter, warnings
from receiver.core.text import literal
from receiver.core.types import WorkState
from receiver.core.units import shown_size
from receiver.core.views import waiting_items, with_subjects
from receiver.core.work import StoreFacts
from receiver.web.console.charts import bars
from receiver.web.console.filters import segment
from receiver.web.console.parts import ConsolePages, ConsoleParts, get
from receiver.web.console.reports import by_span, last_steps, newest_jobs

_LATEST = 12
LITTLE_ROOM = 100_000_000
"""With fewer free bytes the disk needs attention: it may be full within minutes."""
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ShownConcern:
    """Something that needs attention, and the page with its details."""

    tone: str
    """`bad` or `warn`."""
    text: str
    link: str
    since: datetime | None = None
    reason: str = ""


class OverviewPage(ConsolePages):
    """The first page: what needs attention, and how the deployment does."""

    @override
    def routes(self) -> list[Route]:
        return [get("/", self._show)]

    async def _show(self, request: Request) -> Response:
        now = self._parts.clock.now()
        handlers, activity = await self._parts.handlers.wait(), await self._parts.activity.wait()
        async with self._parts.access.reading() as reports:
            attention = await read_attention(reports, now)
            facts = await reports.facts()
            workers = await reports.workers()
            jobs, _ = await newest_jobs(reports, JobFilter(), most=_LATEST)
            newest = [one async for one in reports.deliveries(DeliveryFilter(limit=_LATEST))]
            rows = await with_subjects(reports, newest)
            arrived = await reports.arrivals(now - _DAY)
        content = {
            "hour": _arrivals(arrived, now, _HOUR, MINUTE),
            "day": _arrivals(arrived, now, _DAY, 15 * MINUTE),
            "backlog": attention.backlog,
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
            "concerns": [
                *_little_room(facts),
                *(
                    ShownConcern(one.tone, one.text, _link(one), one.since, one.error)
                    for one in (
                        *concerns(attention, self._parts.options.limits, now),
                        *switched_off(handlers),
                        *late_workers(workers, now),
                    )
                ),
            ],
            "last": newest[0].received_at if newest else None,
        }
        template = "overview_live.html" if request.headers.get("hx-request") else "overview.html"
        return self._parts.pages.page(request, template, content)


def _little_room(facts: StoreFacts) -> Iterator[ShownConcern]:
    """Yield that the disk is full, or soon will be: then no delivery is taken, and all that was may be well."""
    if facts.free is not None and facts.free < LITTLE_ROOM:
        text = f"The disk of the store has {shown_size(facts.free)} free; without room deliveries are refused"
        yield ShownConcern("bad", text, "/guide/runbook#the-disk-is-full")


def _arrivals(minutes: Mapping[datetime, int], now: datetime, span: timedelta, step: timedelta) -> Markup:
    return bars(by_span(minutes, last_steps(now, span, step), step), step=step)


def _link(concern: Concern) -> str:
    match concern.kind:
        case ConcernKind.DEAD:
            wanted = {"handler": literal(concern.subject), "state": "dead", "error": concern.pattern}
            return f"/work-items?{urlencode(wanted)}"
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


MAX_STREAMS = 100
"""ConsolePages that renew themselves at one time. Each holds a connection."""
_RETRY_SECONDS = 30


class ChangeStream(ConsolePages):
    """The stream that an open page listens to."""

    def __init__(self, parts: ConsoleParts) -> None:
        super().__init__(parts)
        self._open = 0

    @override
    def routes(self) -> list[Route]:
        return [get("/changes", self.stream)]

    async def stream(self, request: Request) -> Response:
        """Return an answer that ends with the console, or when the page is left."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self._open >= MAX_STREAMS:
            headers = {"retry-after": str(_RETRY_SECONDS)}
            return PlainTextResponse("Too many pages listen already. This one can be reloaded.", 503, headers)
        return EventSourceResponse(self._lines())

    async def _lines(self) -> AsyncIterator[dict[str, str]]:
        self._open += 1
        try:
            yield {"event": "ready", "data": ""}
            while await self._parts.changes.next():
                yield {"event": "changed", "data": ""}
        finally:
            self._open -= 1
