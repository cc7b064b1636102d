"""The memory that the events of one worker may take together."""

import asyncio
import gc
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from receiver.core.body_cost import COSTLY_BODY, MAX_BODY_COST, body_cost

MAX_MEMORY = 2 * MAX_BODY_COST
MAX_FAILED_BYTES = 32 * 2**20


def claim_on_memory(body: bytes) -> int:
    """Return how much memory to take before this body is read: nothing for one that is cheap, or is never read."""
    cost = body_cost(body)
    return cost if COSTLY_BODY < cost <= MAX_BODY_COST else 0


class FailedBodies:
    """Counts the bodies of failed calls, and searches for garbage when they are many bytes.

    A handler may keep its error in a cycle, and the error keeps the event. Python searches for cycles after so many
    objects, however large they are. It seldom looks again at those that were in use the last time, such as the
    events of calls that have just ended, so this looks at all.
    """

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, bodies: Iterable[bytes]) -> None:
        """Count the bodies of one call."""
        self._bytes += sum(map(len, bodies))
        if self._bytes >= MAX_FAILED_BYTES:
            self._bytes = 0
            gc.collect()


class MemoryBudget:
    """Lets costly bodies wait, in order, until there is memory for them. One always fits."""

    def __init__(self, size: int = MAX_MEMORY) -> None:
        self._size = size
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take_now(self, cost: int) -> bool:
        """Take this memory and return True, or return False if it is not free."""
        if cost and (self._waiting or not self._fits(cost)):
            return False
        self._taken += cost
        return True

    def give_back(self, cost: int) -> None:
        """Let others take this memory."""
        self._taken -= cost
        while self._waiting and self._fits(self._waiting[0][0]):
            wanted, granted = self._waiting.popleft()
            if not granted.done():
                self._taken += wanted
                granted.set_result(None)

    @asynccontextmanager
    async def taken(self, cost: int) -> AsyncIterator[None]:
        """Wait for this memory, and have it for as long as the block lasts."""
        if not cost:
            yield
            return
        await self._take(cost)
        try:
            yield
        finally:
            self.give_back(cost)

    async def _take(self, cost: int) -> None:
        if self.take_now(cost):
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.append((cost, granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self.give_back(0)  # those behind it may fit
            else:
                self.give_back(cost)
            raise

    def _fits(self, cost: int) -> bool:
        return not self._taken or self._taken + cost <= self._size
