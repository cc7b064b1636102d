"""The results that the service has of a job: read in the background, and kept until an operator decides."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from receiver.core.bulk import Imported
from receiver.core.choosing import reason_of
from receiver.core.clock import Clock
from receiver.core.ports.reports import DeliveryReader, Reports
from receiver.core.ports.store import Controls
from receiver.core.types import AppendOutcome, Origin
from receiver.errors import ReceiverError
from receiver.runtime.log_lines import event_log
from receiver.web.console.actions import ActionRun
from receiver.web.console.store import StoreAccess

log = event_log(__name__)

MAX_KEPT = 4
"""Jobs whose missing results are kept. A further one replaces the oldest."""
KEPT = timedelta(hours=1)
"""How long they are kept. What arrived meanwhile is left out when they are imported."""


class MissingResults(Protocol):
    """The missing results of a job."""

    @property
    def produced(self) -> int:
        """How many events the service knows."""

    @property
    def unclear(self) -> int:
        """How many of them cannot be compared."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many are missing, by type."""

    def parts(self, reports: DeliveryReader, origin: Origin) -> AsyncIterator[Sequence[Imported]]:
        """Yield them in parts for the store, without those that have arrived meanwhile."""

    def close(self) -> None:
        """Forget them."""


class ResultSource(Protocol):
    """Asks the service."""

    async def compare(self, reports: DeliveryReader, job_id: str, counted: Callable[[], None]) -> MissingResults:
        """Compare what the service has with what has arrived. `counted` is called for each event.

        Raises ReceiverError with a text that says what to do.
        """


@dataclass(slots=True, eq=False)
class JobComparison:
    """One job that was asked for, and its results so far."""

    job_id: str
    asked_at: datetime
    asked: int = 0
    """How many events the service has named so far."""
    found: MissingResults | None = None
    problem: str | None = None
    """Why it cannot be compared."""

    @property
    def goes_on(self) -> bool:
        """Whether the service is being asked."""
        return self.found is None and self.problem is None

    @property
    def count(self) -> int:
        """How many events are missing."""
        return 0 if self.found is None else sum(self.found.counts.values())

    async def carry_out(
        self, origin: Origin, clock: Clock, reports: Reports, controls: Controls, run: ActionRun
    ) -> None:
        """Store the missing events, part after part. Those of the origin BACKFILL are for handlers."""
        if self.found is None:
            return
        try:
            async for part in self.found.parts(reports, origin):
                if run.must_stop:
                    return
                outcomes = await controls.import_deliveries(part)
                changed, now = list(outcomes).count(AppendOutcome.ACCEPTED), clock.now()
                await controls.advance_action(run.number, seen=len(part), changed=changed, now=now)
        finally:
            self.close()

    def close(self) -> None:
        """Forget the missing events."""
        if self.found is not None:
            self.found.close()


class JobComparisons:
    """The jobs that pages asked for. The service is asked for one after the other."""

    def __init__(self, source: ResultSource | None, access: StoreAccess, clock: Clock) -> None:
        self._source = source
        self._access = access
        self._clock = clock
        self._kept: OrderedDict[str, JobComparison] = OrderedDict()
        self._tasks: dict[JobComparison, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    @property
    def can_ask(self) -> bool:
        """Whether there is an API key to ask with."""
        return self._source is not None

    def begin(self, job_id: str) -> None:
        """Ask for a job, unless the service is being asked for it already."""
        if self._source is None:
            return
        self._forget_old()
        known = self._kept.get(job_id)
        if known is not None and known.goes_on:
            return
        self._forget(job_id)
        one = self._kept[job_id] = JobComparison(job_id, self._clock.now())
        task = self._tasks[one] = asyncio.create_task(self._ask(self._source, one))
        task.add_done_callback(lambda _: self._tasks.pop(one, None))
        while len(self._kept) > MAX_KEPT:
            self._forget(next(iter(self._kept)))

    def find(self, job_id: str) -> JobComparison | None:
        """Return the comparison of a job that was asked for."""
        self._forget_old()
        return self._kept.get(job_id)

    def take(self, job_id: str) -> JobComparison | None:
        """Return the missing results of a job once: who takes them closes them."""
        one = self.find(job_id)
        if one is None or one.found is None:
            return None
        del self._kept[job_id]
        return one

    async def idle(self) -> None:
        """Return when the service is not being asked."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def aclose(self) -> None:
        """Stop asking, and forget all results."""
        for job_id in list(self._kept):
            self._forget(job_id)
        await self.idle()

    async def _ask(self, source: ResultSource, one: JobComparison) -> None:
        def counted() -> None:
            one.asked += 1

        try:
            async with self._turn, self._access.reading() as reports:
                found = await source.compare(reports, one.job_id, counted)
        except Exception as exc:
            one.problem = reason_of(exc)
            if not isinstance(exc, ReceiverError):
                log.exception("console_job_not_compared", extra={"job_id": one.job_id})
            return
        if self._kept.get(one.job_id) is one:
            one.found = found
        else:
            found.close()

    def _forget_old(self) -> None:
        for one in [one for one in self._kept.values() if self._clock.now() - one.asked_at > KEPT]:
            self._forget(one.job_id)

    def _forget(self, job_id: str) -> None:
        one = self._kept.pop(job_id, None)
        if one is None:
            return
        one.close()
        if (task := self._tasks.get(one)) is not None:
            task.cancel()
