"""How the handlers of a store in memory do, and how much is still to be done."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from receiver.core.activity import ActivityCount, MinuteRow, from_minute, to_minute, whole_minutes
from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import OPEN_DELIVERIES, AttemptOutcome, HandlerName, HandlerSwitch, WorkState
from receiver.core.work import LATENCY_ITEMS, Backlog, HandlerReport, StoreFacts
from receiver.core.work_states import CLAIMABLE, LEASED, RUN_ENDS, SKIPPABLE
from receiver.core.workers import WorkerReport
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.listing import newest


class MemoryHealth(MemoryFace):
    """A HealthReader."""

    async def count_unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""
        return sum(one.state in OPEN_DELIVERIES for _, one in newest(self.state, DeliveryFilter(with_runs=True)))

    async def handlers(self, *, count_done: bool = True) -> Sequence[HandlerReport]:
        """Return every handler that has work items, a switch or a schedule."""
        names = {one.handler for one in self.state.work.values()}
        names |= self.state.switches.keys() | self.state.schedules.keys()
        return [self._report(name, count_done=count_done) for name in sorted(names)]

    async def handler_names(self) -> Sequence[HandlerName]:
        """Return the names of all handlers that have work items or a schedule."""
        return sorted({one.handler for one in self.state.work.values()} | self.state.schedules.keys())

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""
        return dict(self.state.switches)

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler have not begun."""
        return Counter(one.handler for one in self.state.work.values() if one.state in SKIPPABLE)

    async def backlog(self, now: datetime) -> Backlog:
        """Return what is still to be done."""
        work, unrouted = self.state.work.values(), self.state.unrouted()
        since = [one.due_at for one in work if one.state in CLAIMABLE]
        since += [one.delivery.received_at for one in unrouted[:1]]
        oldest = min(since, default=None)
        return Backlog(
            new=len(unrouted),
            waiting=sum(one.state in SKIPPABLE for one in work),
            running=sum(one.state in LEASED for one in work),
            oldest_waiting=None if oldest is None else max(timedelta(0), now - oldest),
            paused=tuple(sorted(name for name, to in self.state.switches.items() if to is HandlerSwitch.PAUSED)),
            lost=sum(attempt.outcome is AttemptOutcome.LOST for one in work for attempt in one.history),
            next_runs={name: moment for name, (_, moment) in self.state.schedules.items()},
        )

    async def workers(self) -> Sequence[WorkerReport]:
        """Return the workers that have not said that they ended."""
        leased = [one for one in self.state.work.values() if one.state in LEASED]
        return [
            WorkerReport(sign, seen_at, Counter(one.handler for one in leased if one.worker == name))
            for name, (sign, seen_at) in sorted(self.state.workers.items())
        ]

    async def paces(self) -> Mapping[HandlerName, datetime]:
        """Return until when handlers with a rate are paced."""
        return dict(self.state.paced_until)

    async def activity(
        self, *, since: datetime, step: timedelta, handler: HandlerName | None = None
    ) -> Sequence[ActivityCount]:
        """Return what handlers did since a moment."""
        size, counts = whole_minutes(step), Counter[MinuteRow]()
        first = to_minute(since) // size * size
        for (minute, name, outcome, bucket), count in self.state.minutes.items():
            if minute >= first and handler in (None, name):
                counts[minute // size * size, name, outcome, bucket] += count
        return [
            ActivityCount(from_minute(minute), name, outcome, bucket, count)
            for (minute, name, outcome, bucket), count in counts.items()
        ]

    async def facts(self) -> StoreFacts:
        """Return how large the bodies are."""
        return StoreFacts(sum(len(one.delivery.body) for one in self.state.deliveries.values()))

    def _report(self, name: HandlerName, *, count_done: bool) -> HandlerReport:
        mine = [one for one in self.state.work.values() if one.handler == name]
        ended = [one for one in mine if one.state in RUN_ENDS]
        times = sorted(
            attempt.ended_at - attempt.started_at
            for one in ended[-LATENCY_ITEMS:]
            for attempt in one.history
            if attempt.started_at is not None
        )
        states = (one.state for one in mine if count_done or one.state is not WorkState.DONE)
        counts: Counter[WorkState] = Counter(states)
        newest_first = sorted(mine, key=lambda one: (one.seq, one.id), reverse=True)
        failed = next((one for one in newest_first if one.last_error is not None), None)
        schedule, next_run = self.state.schedules.get(name, (None, None))
        return HandlerReport(
            name=name,
            switch=self.state.switch_of(name),
            counts=dict(counts),
            last_error=None if failed is None else failed.last_error,
            latency=times[len(times) // 2] if times and count_done else None,
            failed_id=None if failed is None else failed.id,
            schedule=schedule,
            next_run=next_run,
        )
