"""Ask the service for the results of one job, for programs that show the plan before they import anything."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from receiver.core.bulk import Imported
from receiver.core.clock import Clock
from receiver.core.ports.reports import DeliveryReader
from receiver.core.text import escape_controls
from receiver.core.types import Origin
from receiver.errors import NotComparable, ReceiverError, ServiceError
from receiver.replay.backfill.comparing import Missing, Spool, compare, delivered, to_import
from receiver.replay.backfill.payloads import Payload

MAX_BYTES = 1024**3
"""Bytes of missing results that are kept until the operator agrees to their import."""


class AskedResults:
    """The missing results of a job. Close it."""

    def __init__(self, missing: Missing, spool: Spool, clock: Clock) -> None:
        self._missing = missing
        self._spool = spool
        self._clock = clock

    @property
    def produced(self) -> int:
        """How many events the service knows."""
        return self._missing.produced

    @property
    def unclear(self) -> int:
        """How many of them cannot be compared."""
        return self._missing.unclear

    @property
    def counts(self) -> Mapping[str, int]:
        """How many are missing, by type."""
        return self._missing.counts

    def parts(self, reports: DeliveryReader, origin: Origin) -> AsyncIterator[Sequence[Imported]]:
        """Yield the missing events in parts for the store, without those that have arrived meanwhile."""
        return to_import(self._missing, self._spool, reports, self._clock, origin=origin)

    def close(self) -> None:
        """Forget the results."""
        self._spool.__exit__()


class AskService:
    """Asks the service with an API key."""

    def __init__(self, api_key: str, base_url: str, clock: Clock) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._clock = clock

    async def compare(self, reports: DeliveryReader, job_id: str, seen: Callable[[], None]) -> AskedResults:
        """Compare what the service has with what has arrived. `seen` is called for each event.

        Raises ReceiverError: the job cannot be compared, or the call has failed; its text says what to do.
        """
        from receiver.replay.backfill.production import Asked, produced  # these load httpx
        from receiver.service.client import AsyncClient
        from receiver.service.client.advice import advise

        found = await delivered(reports, job_id)
        spool = Spool()
        try:
            async with AsyncClient(self._api_key, self._base_url) as client:
                events = produced(client, Asked(job_id, found.family or "", found.monitor_id))
                missing = await compare(found, _bounded(events, spool, seen), spool)
        except BaseException as exc:
            spool.__exit__()
            if isinstance(exc, ServiceError):
                raise ReceiverError(escape_controls(advise(exc))) from exc
            raise
        return AskedResults(missing, spool, self._clock)


async def _bounded(
    events: AsyncIterator[Payload], spool: Spool, seen: Callable[[], None]
) -> AsyncIterator[Payload]:
    async for event in events:
        if spool.end() > MAX_BYTES:
            raise NotComparable("too much is missing for one look: use `receiver backfill --job` for it")
        seen()
        yield event
