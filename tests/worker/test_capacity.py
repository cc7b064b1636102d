"""Queues of claimed work: how much each may claim."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.types import HandlerName
from receiver.routing import Router
from receiver.routing.policies import RunsIn
from receiver.worker.events import DriftLogger
from receiver.worker.routing import Holds, RoutingPlanner
from receiver.worker.work_in_hand import ReadyQueue, ReadyQueues
from tests.doubles import NOON, OpenStore
from tests.worker.test_ready_queues import claimed

H = HandlerName("h")
MOST = 1_000
SLOTS = {RunsIn.LOOP: 4, RunsIn.THREAD: 4, RunsIn.PROCESS: 1}


def handle(event: Any) -> None:
    """Handle nothing."""


async def handle_async(event: Any) -> None:
    """Handle nothing."""


class Queues:
    """The queue of one handler, and the clock that it sees."""

    def __init__(self, *, kinds: int = 1, slots: Mapping[RunsIn, int] = SLOTS, **options: Any) -> None:
        self.router = router = Router()
        router.add(handle, "*", name="h", **options)
        if kinds == 3:
            router.add(handle_async, "*", name="async")
            router.add(handle, "*", name="process", run_in="process")
        self.clock = VirtualClock(NOON)
        self.all = ReadyQueues(
            router, slots, self.clock, concurrency=8, most_claimed=MOST, read=list, wake=lambda: None
        )

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
    """Large transactions cost less for each item."""
    queues = Queues()
    queues.settle_all(timedelta(0))  # from here on its speed is known
    seen = []
    for _ in range(5):
        queues.settle_all(timedelta(milliseconds=5))
        seen.append(queues.queue.claimable)

    assert seen == [128, 256, 512, MOST, MOST]


def test_quick_queues_share_what_a_worker_may_claim() -> None:
    """All together they claim no more than the store allows."""
    queues = Queues(kinds=3)
    for _ in range(5):
        queues.settle_all(timedelta(0))

    assert queues.queue.claimable == MOST // 3
    assert sum(queue.most for queue in queues.all) <= MOST


def test_queues_can_be_told_to_claim_less() -> None:
    """As where events wait in memory for their handlers."""
    queues = Queues()
    for _ in range(5):
        queues.settle_all(timedelta(0))
    queues.all.claim_at_most(256)
    assert queues.queue.claimable == queues.queue.most == 256

    queues.all.claim_at_most(MOST)
    assert queues.queue.most == 256


@pytest.mark.parametrize(
    ("options", "most"),
    [
        pytest.param({}, MOST, id="an event is read when its call is near"),
        pytest.param({"ordered": True}, MOST, id="the lane of a job needs no event"),
        pytest.param({"where": bool}, 256, id="where"),
        pytest.param({"lane": str}, 256, id="lane"),
    ],
)
def test_where_routing_reads_events_few_are_claimed(options: dict[str, Any], most: int) -> None:
    """They wait in memory, and each may take a mebibyte."""
    queues = Queues(**options)
    queue = OpenStore()
    RoutingPlanner(queue, queues.router, queues.all, Holds(queue, queues.router, queues.clock), drift=DriftLogger())

    assert queues.queue.most == most


def test_a_queue_with_many_slots_claims_no_less() -> None:
    """Its slots need that much work, quick or not."""
    queues = Queues(slots={**SLOTS, RunsIn.THREAD: 500})

    assert queues.queue.claimable == queues.queue.most == 2_000


def test_a_queue_that_becomes_slow_claims_as_little_as_at_first() -> None:
    """It keeps no work from other workers that it will not begin soon."""
    queues = Queues()
    first = queues.queue.claimable
    for _ in range(5):
        queues.settle_all(timedelta(milliseconds=1))
    for _ in range(5):
        queues.settle_all(timedelta(seconds=1))

    assert queues.queue.claimable == first == 64


def test_what_a_queue_has_claimed_while_it_was_quick_is_returned_when_it_is_slow() -> None:
    """Other workers may be idle. It keeps the first ones, of which it has waited the longest."""
    queues = Queues()
    for _ in range(5):
        queues.settle_all(timedelta(0))
    for work_id in range(200):
        queues.all.add(claimed(queues.router, work_id, "h"))
    assert queues.all._withdraw_excess() == []
    queues.clock.advance(timedelta(seconds=1))
    returned = queues.all._withdraw_excess()

    assert [one.item.id for one in returned] == list(range(64, 200))
    assert queues.queue.claimed == 64
    assert queues.all._withdraw_excess() == []


def test_a_queue_without_work_begins_slowly_again() -> None:
    """It is not known how quick the next ones are."""
    queues = Queues()
    for _ in range(5):
        queues.settle_all(timedelta(0))
    queues.clock.advance(timedelta(seconds=1))

    assert queues.all._withdraw_excess() == []
    assert queues.queue.claimable == 64


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
