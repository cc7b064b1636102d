"""The deliveries that a tail follows until they reach the wanted state."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.ports.reports import Reports
from receiver.core.types import OPEN_DELIVERIES, DeliveryState

MAX_FOLLOWED = 5_000
"""The newest deliveries that are followed at one time: reading all of them takes a tenth of a second."""
SCAN_LIMIT = 500


class Followed:
    """Picks the deliveries in the wanted state, and follows the others until they are done or dead.

    Without a wanted state it picks every delivery and follows none. For NEW it follows none either, because no
    delivery returns to that state.
    """

    def __init__(self, wanted: DeliveryFilter, *, limit: int = MAX_FOLLOWED) -> None:
        self.in_any_state = replace(wanted, state=None)
        self._state = wanted.state
        self._follows = wanted.state not in (None, DeliveryState.NEW)
        self._limit = limit
        self._seqs: set[int] = set()

    async def begin(self, reports: Reports, *, through: int) -> None:
        """Start again: follow the unfinished deliveries up to this seq."""
        open_seqs = await reports.open_seqs(limit=self._limit) if self._follows else ()
        self._seqs = {seq for seq in open_seqs if seq <= through}

    def forget(self, shown: Iterable[DeliverySummary]) -> None:
        """Stop following these deliveries."""
        self._seqs.difference_update(one.seq for one in shown)

    def picked(self, deliveries: Sequence[DeliverySummary]) -> list[DeliverySummary]:
        """Return those that are in the wanted state, and follow those that may reach it."""
        if self._follows:
            open_ones = (one for one in deliveries if one.state in OPEN_DELIVERIES)
            self._seqs.update(one.seq for one in open_ones if one.state is not self._state)
            if len(self._seqs) > self._limit:
                self._seqs = set(sorted(self._seqs)[-self._limit :])
        return [one for one in deliveries if self._state in (None, one.state)]

    async def reached(self, reports: Reports) -> list[DeliverySummary]:
        """Return the followed deliveries that have reached the wanted state, the oldest first."""
        seqs, self._seqs = sorted(self._seqs), set()
        found: list[DeliverySummary] = []
        for begin in range(0, len(seqs), SCAN_LIMIT):
            found += self.picked(await reports.by_seqs(self.in_any_state, seqs[begin : begin + SCAN_LIMIT]))
        return found
