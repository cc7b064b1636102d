"""What a tail waits for: deliveries that have arrived and have not come to the state that is asked for."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.ports.reports import FeedReader
from receiver.core.types import OPEN_DELIVERIES, DeliveryState

MAX_ITEMS = 5_000
"""Deliveries waited for at one time, the newest: a look at all of them takes a tenth of a second."""
SCAN_LIMIT = 500


class Coming:
    """Picks what is in the wanted state, and waits for the rest until it is done or dead.

    Without a state it picks everything, and waits for nothing; nor does it for NEW, to which nothing comes.
    """

    def __init__(self, wanted: DeliveryFilter) -> None:
        self.in_any_state = replace(wanted, state=None)
        self._state = wanted.state
        self._waits = wanted.state not in (None, DeliveryState.NEW)
        self._seqs: set[int] = set()

    async def begin(self, reports: FeedReader, *, through: int) -> None:
        """Wait anew, for what has arrived up to this place and is not finished."""
        open_seqs = await reports.open_seqs(limit=MAX_ITEMS) if self._waits else ()
        self._seqs = {seq for seq in open_seqs if seq <= through}

    def forget(self, shown: Iterable[DeliverySummary]) -> None:
        """Do not wait for these any more."""
        self._seqs.difference_update(one.seq for one in shown)

    def picked(self, deliveries: Sequence[DeliverySummary]) -> list[DeliverySummary]:
        """Return those that are in the state, and wait for those that may come to it."""
        if self._waits:
            open_ones = (one for one in deliveries if one.state in OPEN_DELIVERIES)
            self._seqs.update(one.seq for one in open_ones if one.state is not self._state)
            if len(self._seqs) > MAX_ITEMS:
                self._seqs = set(sorted(self._seqs)[-MAX_ITEMS:])
        return [one for one in deliveries if self._state in (None, one.state)]

    async def come(self, reports: FeedReader) -> list[DeliverySummary]:
        """Return those waited for that are in the state by now, the oldest first."""
        seqs, self._seqs = sorted(self._seqs), set()
        come: list[DeliverySummary] = []
        for begin in range(0, len(seqs), SCAN_LIMIT):
            come += self.picked(await reports.by_seqs(self.in_any_state, seqs[begin : begin + SCAN_LIMIT]))
        return come
