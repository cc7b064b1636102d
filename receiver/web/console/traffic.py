"""How many deliveries came in each minute of the last day, counted once and kept up to date."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from receiver.core.arrivals import MINUTE
from receiver.core.clock import Clock
from receiver.core.ports.reports import FeedReader
from receiver.web.console.access import StoreAccess

DAY = timedelta(days=1)
_COUNTED_AT_ONCE = 20_000

Point = tuple[datetime, int]
"""The beginning of a span of time, and how many deliveries came in it."""


class Traffic:
    """Counts in the background: no page waits for the first count of a large store."""

    def __init__(self, access: StoreAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._minutes: Counter[datetime] = Counter()
        self._through: int | None = None
        self._losses = 0
        self._is_counted = False
        self._counting: asyncio.Task[None] | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the last day was counted once."""
        return self._is_counted

    def look(self) -> None:
        """Begin to count what is new, unless that is going on."""
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count())
            self._counting.add_done_callback(_retrieve_exception)

    async def counted(self) -> None:
        """Return when the count that is going on has ended."""
        if self._counting is not None:
            await asyncio.wait([self._counting])

    def last(self, span: timedelta, step: timedelta) -> Sequence[Point]:
        """Return the counts of the last span in steps of whole minutes, the oldest first."""
        size = step // MINUTE
        now = self._clock.now().replace(second=0, microsecond=0)
        end = now - (now.minute + now.hour * 60) % size * MINUTE
        steps = [end - at * step for at in range(span // step - 1, -1, -1)]
        return [(one, sum(self._minutes[one + at * MINUTE] for at in range(size))) for one in steps]

    async def aclose(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])

    async def _count(self) -> None:
        async with self._access.reading() as reports:
            since = self._clock.now() - DAY
            if self._losses != self._access.losses:  # another database may be in the place of the old one
                self._losses, self._through, self._minutes = self._access.losses, None, Counter()
            if self._through is None:
                self._through = await reports.last_seq_before(since)
            await self._count_new(reports, self._through)
        self._is_counted = True
        for minute in [one for one in self._minutes if one < since]:
            del self._minutes[minute]

    async def _count_new(self, reports: FeedReader, through: int) -> None:
        while True:
            found = await reports.arrivals(after=through, limit=_COUNTED_AT_ONCE)
            self._minutes.update(found.minutes)
            if found.through == through:
                return
            self._through = through = found.through


def _retrieve_exception(counting: "asyncio.Task[None]") -> None:
    """Retrieve an error of the store: the page says it already."""
    if not counting.cancelled():
        counting.exception()
