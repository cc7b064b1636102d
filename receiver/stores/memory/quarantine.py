"""Reading requests in quarantine from a store in memory."""

from collections.abc import AsyncIterator
from itertools import islice

from receiver.core.quarantine import Quarantined, QuarantinedSummary, QuarantineFilter
from receiver.errors import UnknownRequest
from receiver.stores.memory.face import MemoryFace


class MemoryQuarantine(MemoryFace):
    """A QuarantineReader."""

    async def quarantined_requests(
        self, wanted: QuarantineFilter, *, before: int | None = None
    ) -> AsyncIterator[QuarantinedSummary]:
        """Yield the requests in quarantine, the newest first."""
        found = (
            QuarantinedSummary(number, one.received_at, one.reason, one.detail, one.key, len(one.body))
            for number, one in reversed(list(self.state.quarantined.items()))
            if (before is None or number < before)
            and (wanted.reason is None or one.reason == wanted.reason)
            and (wanted.since is None or one.received_at >= wanted.since)
            and (wanted.until is None or one.received_at < wanted.until)
        )
        for summary in islice(found, wanted.limit):
            yield summary

    async def quarantined_request(self, request_id: int) -> Quarantined:
        """Return a request in quarantine."""
        if request_id not in self.state.quarantined:
            raise UnknownRequest(request_id)
        return self.state.quarantined[request_id]
