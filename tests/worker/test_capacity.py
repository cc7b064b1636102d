"""Queues of claimed work: how much each may claim."""

from datetime import timedelta
from typing import Any

from receiver.core.clock import VirtualClock
from receiver.core.types import HandlerName
from receiver.routing import Router
from receiver.routing.policies import RunsIn
from receiver.worker.slots import ReadyQueue, ReadyQueues
from tests.doubles import NOON

H = HandlerName("h")
SLOTS = {RunsIn.LOOP: 4, RunsIn.THREAD: 4, RunsIn.PROCESS: 1}


def handle(event: Any) -> None:
    """Handle nothing."""


async def handle_async(event: Any) -> None:
    """Handle nothing."""


class Queues:
    """The queue of one handler, and the clock that it sees."""

    def __init__(self, *, kinds: int = 1, **options: object) -> None:
        router = Router()
        router.add(handle, "*", name="h", **options)  # type: ignore[arg-type]
        if kinds == 3:
            router.add(handle_async, "*", name="async")
            router.add(handle, "*", name="process", run_in="process")
        self.clock = VirtualClock(NOON)
        self.all = ReadyQueues(router, SLOTS, self.clock, concurrency=8, wake=lambda: None)

    @property
    def queue(self) -> ReadyQueue:
        """The queue of the handler."""
        return self.all[H]

    def settle_all(self, took: timedelta) -> None:
        """Claim as much as the queue takes, and settle it so much later."""
        claimed = self.queue.capacity
        self.queue.claimed += claimed
        self.clock.advance(took)
        self.all.settled({H: claimed})


def test_a_quick_queue_claims_more_up_to_a_limit() -> None:
    """Large transactions cost less for each item. The kinds without handlers leave their shares to it."""
    queues = Queues()
    queues.settle_all(timedelta(0))  # from here on its speed is known
    seen = []
    for _ in range(5):
        queues.settle_all(timedelta(milliseconds=5))
        seen.append(queues.queue.claimable)

    assert seen == [128, 192, 192, 192, 192]


def test_queues_that_are_all_used_claim_no_more() -> None:
    """All together a worker claims no more than its bound on memory says."""
    queues = Queues(kinds=3)
    for _ in range(3):
        queues.settle_all(timedelta(0))

    assert sum(queue.most for queue in queues.all) == 3 * 64
    assert queues.queue.claimable == 64


def test_a_queue_that_becomes_slow_claims_as_little_as_at_first() -> None:
    """It keeps no work from other workers that it will not begin soon."""
    queues = Queues()
    first = queues.queue.claimable
    for _ in range(5):
        queues.settle_all(timedelta(milliseconds=1))
    for _ in range(5):
        queues.settle_all(timedelta(seconds=1))

    assert queues.queue.claimable == first == 64


def test_a_queue_claims_nothing_until_a_half_of_it_is_free() -> None:
    """Few large claims cost less than many small ones."""
    queues = Queues()
    queues.queue.claimed = 33

    assert queues.queue.claimable == 0
    queues.all.settled({H: 1})
    assert queues.queue.claimable == 32


def test_a_queue_of_batches_always_claims_for_the_same_number_of_batches() -> None:
    """A batch is large enough already."""
    queues = Queues(batch=10)
    first = queues.queue.claimable
    for _ in range(3):
        queues.settle_all(timedelta(0))

    assert queues.queue.claimable == first
