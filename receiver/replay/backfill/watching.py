"""The automatic backfill of a worker: it asks the service about jobs that have ended or gone silent.

It runs beside the handlers and gives the event loop back after every page.
"""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.clock import Clock
from receiver.core.jobs import JobFilter, JobSummary
from receiver.core.ports.queue import OnceKeys
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Store
from receiver.core.types import AppendOutcome, HandlerName, Origin
from receiver.errors import (
    BadRequest,
    Forbidden,
    NotComparable,
    NotFound,
    NotOver,
    ReceiverError,
    ServiceError,
    StoreError,
)
from receiver.replay.backfill.comparing import FOR_ALL, Spool, compare, delivered, to_import
from receiver.replay.backfill.production import Asked, produced
from receiver.runtime.log_lines import event_log
from receiver.service.client import AsyncClient
from receiver.service.client.advice import advise
from receiver.signals.contracts import JobAsked, job_asked

log = event_log(__name__)

EVERY = timedelta(minutes=5)
RETRIES_OVER = timedelta(minutes=25)
"""The wait after a job's end: the sender's last retry ends 22 minutes after its first attempt."""
SILENCE = timedelta(hours=1)
_KEPT = timedelta(hours=24)
"""How long the service keeps results."""
MAX_PAGES = 10
"""Pages in one answer, which blocks the event loop while it is parsed."""
_CLAIMS = HandlerName("receiver.replay.backfill")
_TAKEN = timedelta(hours=1)
"""How long other workers leave a job to the worker that asks about it."""


class Reason(StrEnum):
    """Why a job is asked about."""

    ENDED = "ended"
    SILENT = "silent"


def reason_to_ask(job: JobSummary, now: datetime) -> Reason | None:
    """Return why it is time to ask about a job; None if it is too early."""
    if job.end is not None:
        return Reason.ENDED if now - job.end.at >= RETRIES_OVER else None
    return Reason.SILENT if now - job.last_at >= SILENCE else None


class Backfilling:
    """Asks the service every few minutes about jobs, once for each job and reason, from one worker only.

    A job is asked about again only if it was not over, or if the service could not answer, and until the service
    has deleted its results. The store remembers for an hour that a worker asks about a job. If the worker ends,
    another one asks after that.
    """

    def __init__(self, store: Store, queue: OnceKeys, client: AsyncClient, clock: Clock) -> None:
        self._store = store
        self._queue = queue
        self._client = client
        self._clock = clock

    async def run(self) -> None:
        """Ask every few minutes, until cancelled."""
        while True:
            await self._clock.sleep(EVERY)
            try:
                await self._ask_about_due()
            except ReceiverError as exc:
                log.warning("backfill_deferred", extra={"reason": _reason(exc)})
            except Exception:  # an unexpected answer must not end the backfill of other jobs
                log.exception("backfill_crashed")

    async def _ask_about_due(self) -> None:
        async with self._store.reports() as reports, self._store.controls() as controls:
            async for job_id, reason in self._due(reports):
                imported: Counter[str] = Counter()
                error = None
                try:
                    await self._ask(reports, controls, job_id, reason, imported)
                except ReceiverError as exc:
                    error = exc
                await self._settle(job_id, reason, imported, error)

    async def _due(self, reports: Reports) -> AsyncIterator[tuple[str, Reason]]:
        """Yield the jobs that this worker has to ask about now, each with the reason."""
        now = self._clock.now()
        jobs = reports.jobs(JobFilter(since=now - _KEPT))
        known = [(one.job_id, reason) async for one in jobs if (reason := reason_to_ask(one, now)) is not None]
        available = await self._queue.available_once_keys(_CLAIMS, [_claim(*one) for one in known], now=now)
        for one in known:
            now = self._clock.now()
            key = _claim(*one)
            if key in available and await self._queue.once(_CLAIMS, key, now=now, until=now + _TAKEN):
                yield one

    async def _ask(
        self, reports: Reports, controls: Controls, job_id: str, reason: Reason, imported: Counter[str]
    ) -> None:
        """Import the missing events of a job, and count them by type."""
        with Spool() as spool:
            found = await delivered(reports, job_id)
            asked = Asked(job_id, found.family or "", found.monitor_id, at_once=MAX_PAGES)
            missing = await compare(found, produced(self._client, asked), spool)
            async for part in to_import(missing, spool, reports, self._clock, origin=Origin.BACKFILL):
                outcomes = await controls.import_deliveries(part)
                new = [
                    one for one, outcome in zip(part, outcomes, strict=True) if outcome is AppendOutcome.ACCEPTED
                ]
                imported.update(one.delivery.type for one in new)
        fields = {"job_id": job_id, "reason": reason.value, "produced": missing.produced}
        if imported:
            types = dict(imported)
            log.warning("backfilled", extra={**fields, "count": imported.total(), "types": types})
        else:
            log.info("backfill_not_needed", extra=fields)

    async def _settle(
        self, job_id: str, reason: Reason, imported: Counter[str], error: ReceiverError | None
    ) -> None:
        """Report the outcome, and store when to ask again. Raises errors that would hit other jobs too."""
        now = self._clock.now()
        outcome, wait = _outcome(imported, error)
        job_asked.emit(JobAsked(job_id=job_id, reason=reason, outcome=outcome, imported=dict(imported), at=now))
        await self._queue.set_once_expiry(
            _CLAIMS, _claim(job_id, reason), until=None if wait is None else now + wait
        )
        if isinstance(error, (*FOR_ALL, StoreError)):
            raise error
        if error is None or isinstance(error, NotOver):
            return
        word = "backfill_impossible" if wait is None else "backfill_deferred"
        log.warning(word, extra={"job_id": job_id, "reason": _reason(error)})


def _outcome(imported: Counter[str], error: ReceiverError | None) -> tuple[str, timedelta | None]:
    """Return the outcome in a word, and after how long to ask again; None for never."""
    match error:
        case None:
            return ("brought_in" if imported else "nothing_missing"), None
        case NotOver():
            return "not_over", SILENCE
        case NotComparable() | NotFound() | Forbidden() | BadRequest():
            return "impossible", None
        case ServiceError():
            return "failed", error.retry_after or timedelta(0)
    return "failed", timedelta(0)


def _claim(job_id: str, reason: Reason) -> str:
    return f"{reason}:{job_id}"


def _reason(error: ReceiverError) -> str:
    return advise(error) if isinstance(error, ServiceError) else str(error)
