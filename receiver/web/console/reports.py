"""Reports that the pages show: activity, drift, checks and jobs. Slow ones are read in the background."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, ParamSpec, TypeVar, cast

from markupsafe import Markup

from receiver.core.activity import MINUTE, ActivityCount, Performance, by_step, performance
from receiver.core.batches import BatchSize
from receiver.core.deliveries import Delivery, DeliveryFilter, StoredDelivery
from receiver.core.jobs import JobFilter, JobSummary
from receiver.core.ports.reports import HealthReader, JobReader, Reports
from receiver.core.types import HandlerName
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.documents.monitors import MonitorCheck
from receiver.events.drift import DriftCount, DriftCounter
from receiver.events.monitor import MonitorCheckCompleted
from receiver.web.console.charts import attempt_bars
from receiver.web.console.store import StoreAccess

Point = tuple[datetime, int]
"""The beginning of a span of time, and how many deliveries came in it."""


def last_steps(now: datetime, span: timedelta, step: timedelta) -> Sequence[datetime]:
    """Return when each step of the last span began, the oldest first. A step has whole minutes."""
    size = step // MINUTE
    end = now.replace(second=0, microsecond=0)
    end -= (end.minute + end.hour * 60) % size * MINUTE
    return [end - at * step for at in range(span // step - 1, -1, -1)]


def by_span(minutes: Mapping[datetime, int], steps: Sequence[datetime], step: timedelta) -> Sequence[Point]:
    """Return how many deliveries came in each step, from the counts of minutes."""
    size = step // MINUTE
    return [(one, sum(minutes.get(one + at * MINUTE, 0) for at in range(size))) for one in steps]


_SPANS = (("hour", timedelta(hours=1), MINUTE), ("day", timedelta(days=1), 15 * MINUTE))


@dataclass(frozen=True, slots=True)
class ShownActivity:
    """The attempts of a span of time."""

    name: str
    """Hour or day."""
    chart: Markup
    """How many succeeded and failed in each step."""
    performance: Performance
    """How they went."""
    per_minute: float
    """How many ended in a minute on average."""
    handlers: Mapping[HandlerName, Performance]
    """How those of each handler went. A handler without any is absent."""


async def read_activity(
    reports: HealthReader, now: datetime, handler: HandlerName | None = None
) -> Sequence[ShownActivity]:
    """Return what all handlers did, or one, in the last hour and in the last day."""
    return [await _span(reports, now, handler, *span) for span in _SPANS]


async def _span(
    reports: HealthReader, now: datetime, handler: HandlerName | None, name: str, span: timedelta, step: timedelta
) -> ShownActivity:
    steps = last_steps(now, span, step)
    counts = [
        one
        for one in await reports.activity(since=steps[0], step=step, handler=handler)
        if one.begins_at <= steps[-1]  # a clock may have been ahead
    ]
    found = performance(counts)
    minutes = max((now - steps[0]) / MINUTE, 1)
    chart = attempt_bars(by_step(counts, steps), step=step)
    return ShownActivity(name, chart, found, found.attempts / minutes, _by_handler(counts))


def _by_handler(counts: Sequence[ActivityCount]) -> Mapping[HandlerName, Performance]:
    mine: dict[HandlerName, list[ActivityCount]] = {}
    for one in counts:
        mine.setdefault(one.handler, []).append(one)
    return {name: performance(some) for name, some in mine.items()}


T = TypeVar("T")

PATIENCE_SECONDS = 0.1
"""How long a page waits for a report before it shows the last one."""


class BackgroundReport(Generic[T]):
    """One report. Each page asks for a new one, and at most one is being read at a time."""

    def __init__(self, access: StoreAccess, read: Callable[[Reports], Awaitable[T]]) -> None:
        self._access = access
        self._read = read
        self._last: T | None = None
        self._reading: asyncio.Task[T] | None = None

    async def get(self) -> T | None:
        """Return the newest result that can be had soon; None if there is none. Raises StoreError."""
        if self._reading is not None and self._reading.done():
            self._take(self._reading)  # it may be old: no page has asked since
        if self._reading is None:
            self._reading = asyncio.create_task(self._report())
        reading = self._reading
        await asyncio.wait([reading], timeout=PATIENCE_SECONDS)
        if reading.done():
            self._take(reading)
            reading.result()
        return self._last

    async def wait(self) -> T:
        """Return the same; the first result however long it takes. Raises StoreError."""
        soon = await self.get()
        if soon is not None or self._reading is None:
            return cast("T", soon)
        reading = self._reading
        await asyncio.wait([reading])
        self._take(reading)
        return reading.result()

    def _take(self, reading: "asyncio.Task[T]") -> None:
        if self._reading is reading:
            self._reading = None
            if not reading.cancelled() and reading.exception() is None:
                self._last = reading.result()

    async def aclose(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _report(self) -> T:
        async with self._access.reading() as reports:
            return await self._read(reports)


P = ParamSpec("P")


class SlowWork:
    """Runs one function at a time: hostile pages in many tabs take no more than one processor and one thread."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread and return its result."""
        async with self._turn:
            return await asyncio.to_thread(work, *args, **kwargs)


EXAMINED = 500
"""Deliveries that are read, the newest; `receiver drift` reads all."""
MAX_EXAMINED_BODY = 1024 * 1024
"""Bytes of a body that is read. A longer one is counted as left out."""
_READ_AT_ONCE, _BYTES_AT_ONCE = 20, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CountedDrift:
    """What was found."""

    rows: Sequence[DriftCount]
    """Each unknown type or field, and where it came."""
    seen: int
    """Deliveries that were read."""
    left_out: int
    """Deliveries that are too long."""


async def count_drift(reports: Reports, slow: SlowWork) -> CountedDrift:
    """Read the newest deliveries."""
    counter = DriftCounter()
    part: list[StoredDelivery] = []
    size = BatchSize(_READ_AT_ONCE, _BYTES_AT_ONCE)
    seen = left_out = 0
    async for stored in reports.iter_deliveries(DeliveryFilter(limit=EXAMINED)):
        if len(stored.delivery.body) > MAX_EXAMINED_BODY:
            left_out += 1
            continue
        seen += 1
        part.append(stored)
        size.add(len(stored.delivery.body))
        if size.is_full:
            await slow.run(_count, counter, part)
            part, size = [], BatchSize(_READ_AT_ONCE, _BYTES_AT_ONCE)
    await slow.run(_count, counter, part)
    return CountedDrift(counter.counts(), seen, left_out)


def _count(counter: DriftCounter, part: Sequence[StoredDelivery]) -> None:
    for stored in part:
        with suppress(Malformed, ValueError, RecursionError):  # quarantine and the delivery's own page show it
            counter.add(parse_event(stored.delivery.body), stored.delivery)


SHOWN = 200
"""Checks on the page, the newest."""
MAX_CHECK_BODY = 1024 * 1024
"""Bytes of a delivery that is read: a check has counts, and no pages."""


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """A check of a monitor. The body that reported it is not kept."""

    received_at: datetime
    """When the delivery of its end arrived."""
    job_id: str | None
    """What links its deliveries."""
    check: MonitorCheck


async def read_checks(reports: Reports, slow: SlowWork) -> Sequence[ShownCheck]:
    """Return the checks that ended last, the newest first. No index finds a type, so this takes long."""
    wanted = DeliveryFilter(type=MonitorCheckCompleted.type_name, limit=SHOWN)
    found = [
        await slow.run(_shown, stored.delivery)
        async for stored in reports.iter_deliveries(wanted)
        if len(stored.delivery.body) <= MAX_CHECK_BODY
    ]
    return [one for one in reversed(found) if one is not None]


def _shown(delivery: Delivery) -> ShownCheck | None:
    try:
        event = parse_event(delivery.body)
    except (Malformed, ValueError, RecursionError):
        return None
    if not isinstance(event, MonitorCheckCompleted):
        return None
    return ShownCheck(delivery.received_at, delivery.job_id, event.check)


MAX_DELIVERIES = 20_000
"""Deliveries of the jobs on a page. One job alone may have more."""


async def newest_jobs(
    reports: JobReader,
    wanted: JobFilter,
    *,
    most: int,
    before: int | None = None,
    most_deliveries: int = MAX_DELIVERIES,
    through: int | None = None,
) -> tuple[list[JobSummary], bool]:
    """Return the newest wanted jobs, and whether there are others; fewer than `most` where jobs are long.

    The line of a job counts all of its deliveries, so long jobs take long to read.
    """
    found: list[JobSummary] = []
    deliveries = 0
    async for one in reports.jobs(replace(wanted, limit=most + 1), before=before, through=through):
        deliveries += one.deliveries
        if len(found) == most or (found and deliveries > most_deliveries):
            return found, True
        found.append(one)
    return found, False
