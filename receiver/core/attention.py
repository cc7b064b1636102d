"""What needs attention: one rule for the console and for alerts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.activity import WorkerReport
from receiver.core.deliveries import DeliveryFilter, QuarantinedSummary, QuarantineFilter
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, shortened
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.units import in_words
from receiver.core.views import waiting_items
from receiver.core.work import EXAMINED, Backlog, DeadGroup, HandlerReport, WorkFilter, grouped

QUARANTINED_WITHIN = timedelta(days=1)
"""A request that has been in quarantine for longer needs no attention."""
_MOST_QUARANTINED = 1_000
_MOST_GROUPS = 5
"""Groups of dead work that are named, besides the largest group of each handler."""
_SECOND = timedelta(seconds=1)


class ConcernKind(StrEnum):
    """Why something needs attention."""

    DEAD = "dead"
    BACKLOG = "backlog"
    NO_DELIVERY = "no_delivery"
    REFUSED = "refused"
    QUARANTINED = "quarantined"
    SWITCHED_OFF = "switched_off"
    LATE_WORKER = "late_worker"


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs attention."""

    kind: ConcernKind
    tone: str
    """`bad` or `warn`."""
    text: str
    subject: str = ""
    """What it is about, such as a handler; empty if it is about the whole deployment."""
    count: int = 1
    """How many there are of it."""
    reason: str = ""
    """What distinguishes it from others of its kind and subject, such as an error without its numbers."""
    since: datetime | None = None
    """When the oldest delivery of it arrived, if that is known."""
    error: str = ""
    """What went wrong, if a handler says it."""
    pattern: str = ""
    """A glob for the errors of dead work that it is about."""

    @property
    def sentence(self) -> str:
        """Everything in one sentence, for readers without a page."""
        since = f", of deliveries since {self.since:%Y-%m-%d %H:%M} UTC" if self.since else ""
        return f"{self.text}{since}{f': {self.error}' if self.error else ''}"


@dataclass(frozen=True, slots=True)
class AttentionLimits:
    """How long something may last before it needs attention; None for ever."""

    backlog_older_than: timedelta = timedelta(minutes=5)
    no_delivery_for: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """What a store knows about things that may need attention."""

    backlog: Backlog
    dead: Sequence[DeadGroup]
    """Groups of the newest dead work items."""
    dead_counts: Mapping[HandlerName, int]
    """How many dead work items each handler has."""
    quarantined: Sequence[QuarantinedSummary]
    """The newest requests in quarantine."""
    last_delivery: datetime | None
    """When the newest delivery arrived."""


async def read_attention(reports: Reports, now: datetime) -> Attention:
    """Read from a store what may need attention."""
    items = [one async for one in reports.work_items(WorkFilter(state=WorkState.DEAD, limit=EXAMINED))]
    counts = Counter([one.handler for one in items])
    if len(items) == EXAMINED:
        counts.clear()
        for kind, count in (await reports.work_plan(WorkFilter(state=WorkState.DEAD))).kinds.items():
            counts[kind.handler] += count
    wanted = QuarantineFilter(since=now - QUARANTINED_WITHIN, limit=_MOST_QUARANTINED)
    newest = [one async for one in reports.deliveries(DeliveryFilter(limit=1))]
    return Attention(
        backlog=await reports.backlog(now),
        dead=grouped(items),
        dead_counts=counts,
        quarantined=[one async for one in reports.quarantined_requests(wanted)],
        last_delivery=newest[0].received_at if newest else None,
    )


def concerns(found: Attention, limits: AttentionLimits, now: datetime) -> Iterator[Concern]:
    """Yield what needs attention according to the store, the worst first."""
    yield from _dead(found)
    oldest = found.backlog.oldest_waiting
    if oldest is not None and oldest > limits.backlog_older_than:
        text = f"The oldest work has been due for {_rounded(oldest)}. Is a worker running?"
        if paused := found.backlog.paused:
            text += f" Work of paused handlers counts too: {shortened(', '.join(paused))}"
        yield Concern(ConcernKind.BACKLOG, "bad", text)
    last, longest = found.last_delivery, limits.no_delivery_for
    if last is not None and longest is not None and now - last > longest:
        text = f"No delivery has come for {_rounded(now - last)}"
        yield Concern(ConcernKind.NO_DELIVERY, "bad", text)
    if found.quarantined:
        count = len(found.quarantined)
        reasons = ", ".join(sorted({one.reason for one in found.quarantined}))
        number = f"{count:,}+ requests" if count == _MOST_QUARANTINED else counted(count, "request")
        text = f"{number} in quarantine in the last 24 hours: {reasons}"
        yield Concern(ConcernKind.QUARANTINED, "warn", text, count=count, reason=reasons)


def _dead(found: Attention) -> Iterator[Concern]:
    groups = Counter([one.handler for one in found.dead])
    examined: Counter[HandlerName] = Counter()
    for group in found.dead:
        examined[group.handler] += group.count
    named: set[HandlerName] = set()
    for place, group in enumerate(found.dead):
        if place >= _MOST_GROUPS and group.handler in named:
            continue
        named.add(group.handler)
        alone = groups[group.handler] == 1
        all_dead = found.dead_counts.get(group.handler, group.count)
        count = all_dead if alone else group.count
        more = "+" if not alone and all_dead > examined[group.handler] else ""  # their errors are not known
        yield Concern(
            ConcernKind.DEAD,
            "bad",
            f"{count:,}{more} dead in {group.handler}",
            subject=group.handler,
            count=count,
            reason=group.kind,
            since=group.first_at,
            error=group.error,
            pattern=group.pattern,
        )
    for handler in sorted(found.dead_counts.keys() - named):  # beyond the items that were examined
        count = found.dead_counts[handler]
        yield Concern(ConcernKind.DEAD, "bad", f"{count:,} dead in {handler}", subject=handler, count=count)


def switched_off(handlers: Iterable[HandlerReport]) -> Iterator[Concern]:
    """Yield the handlers that are paused or disabled."""
    for one in handlers:
        if one.switch is not HandlerSwitch.ON:
            text = f"{one.name} is {one.switch.value}: {counted(waiting_items(one), 'item')} not started"
            yield Concern(ConcernKind.SWITCHED_OFF, "warn", text, subject=one.name)


def late_workers(workers: Iterable[WorkerReport], now: datetime) -> Iterator[Concern]:
    """Yield the workers that are dead, or were not seen for a while."""
    for one in workers:
        if one.is_late(now):
            text = f"The worker {one.sign.name} has not been seen for {in_words(one.unseen(now))}"
            text += f": {one.suspicion}"
            yield Concern(ConcernKind.LATE_WORKER, "warn", text, subject=one.sign.name)


def _rounded(duration: timedelta) -> str:
    """Return a duration without needless detail, such as the seconds of hours and the minutes of days."""
    for unit in (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)):
        if duration >= 10 * unit:
            return in_words(duration // unit * unit)
    return in_words(duration // _SECOND * _SECOND)
