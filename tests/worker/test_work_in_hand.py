"""What a worker has in hand leaves its queue, its lane and its leases together."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from receiver.core.claims import FollowerClaim, WorkItem
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Succeeded
from receiver.core.types import HandlerName, Trigger
from receiver.worker.attempts import Claimed, Ended
from receiver.worker.work_in_hand import ClaimedWork, WorkerLimits, WorkInHand
from tests.doubles import delivery
from tests.stores.opened import ended
from tests.worker.worker_bench import ME, MINUTE, WorkerBench

H = HandlerName("h")
LIMITS = WorkerLimits(concurrency=4, threads=4, processes=1, lease=MINUTE)


class Hand:
    """The work in hand of a worker with one handler in lanes, and what it has released."""

    def __init__(self, bench: WorkerBench) -> None:
        bench.handler("h", ordered=True)(lambda event: None)
        self.clock = bench.clock
        self.released: list[int] = []
        self._handler = bench.router[H]
        self.hand = WorkInHand(bench.store, bench.router, bench.clock, ME, LIMITS, read=list, wake=lambda: None)
        bench.store.release_leases = self._release  # type: ignore[method-assign]

    async def _release(self, work_ids: Sequence[int], worker: object, **more: object) -> None:
        self.released += work_ids

    def claimed(self, work_id: int) -> Claimed:
        """Return a claimed item of the lane."""
        stored = StoredDelivery(work_id, 0, delivery(f"{work_id}"))
        return Claimed(WorkItem(work_id, H, 1, 0, 0, Trigger.DELIVERY, stored, True), self._handler)

    def take(self, head: int, *followers: int) -> None:
        """Take an item with its followers."""
        behind = {head: [self.claimed(one) for one in followers]} if followers else {}
        self.hand.take(ClaimedWork([self.claimed(head)], behind, frozenset()), self.hand.leases.new_lease())

    def start(self) -> Claimed:
        """Start the next call, and return its only item."""
        started = self.hand.start_next(frozenset())
        assert started is not None
        (one,) = started[0]
        return one

    @property
    def leased(self) -> list[int]:
        """The items under a lease."""
        return [one for one in range(10) if one in self.hand.leases]

    @property
    def waiting(self) -> list[int]:
        """The items that wait for a slot."""
        return [one.item.id for queue in self.hand.ready for call in queue.calls for one in call]


@pytest.fixture
def at(bench: WorkerBench) -> Hand:
    """A hand without work."""
    return Hand(bench)


async def test_what_is_given_back_takes_its_followers_along(at: Hand) -> None:
    """Only the head has a lease in the store. Nothing of it stays here, and what runs is not touched."""
    at.take(1, 2, 3)
    running = at.start()
    at.take(4, 5)

    await at.hand.give_back(lambda one: True)

    assert running.item.id == 1
    assert at.released == [4]
    assert at.leased == [1, 2, 3]
    assert at.waiting == []


async def test_what_is_dropped_is_released_later_unless_it_was_claimed_again(at: Hand) -> None:
    """Its lease may have ended, so it must not start, and another worker may have it."""
    at.take(1, 2)
    at.take(3)
    at.clock.advance(MINUTE)

    assert at.hand.drop_ended()
    assert (at.leased, at.waiting, at.released) == ([], [], [])
    at.take(3)
    await at.hand.release_dropped()

    assert at.released == [1]
    assert at.leased == at.waiting == [3]
    await at.hand.release_dropped()
    assert at.released == [1]


def test_what_is_claimed_again_is_there_once(at: Hand) -> None:
    """Its older claim holds nothing any more: neither its place in the queue, nor its followers."""
    at.take(1, 2, 3)

    at.take(1, 4)

    assert at.waiting == [1]
    assert at.leased == [1, 4]
    one = at.start()
    at.hand.attempted(one, Ended(ended(1).attempt, Succeeded()))
    assert at.waiting == [4]


async def test_a_follower_that_the_store_refuses_leaves_its_queue(at: Hand) -> None:
    """The head was recorded without it. It may be ours after all, so it is released, and nothing follows it."""
    at.take(1, 2, 3)
    head = at.start()
    at.hand.attempted(head, Ended(ended(1).attempt, Succeeded()))
    _, claims = at.hand.lanes.to_record([(ended(1), head.run)])
    (claim,) = claims

    await at.hand.follow_up([(claim, claims[claim], False)])

    assert claim == FollowerClaim(2, 1, claim.lease, started=False)
    assert (at.waiting, at.released, at.leased) == ([], [2], [1])


async def test_a_follower_that_was_given_back_before_the_store_claimed_it_is_released_then(at: Hand) -> None:
    """The head is recorded, and the claim of its follower is under way, when its handler is switched off."""
    at.take(1, 2)
    head = at.start()
    at.hand.attempted(head, Ended(ended(1).attempt, Succeeded()))
    _, claims = at.hand.lanes.to_record([(ended(1), head.run)])
    (claim,) = claims
    await at.hand.give_back_unneeded([H])
    assert at.released == [2]

    await at.hand.follow_up([(claim, claims[claim], True)])

    assert at.released == [2, 2]
    assert (at.waiting, at.leased) == ([], [1])


def test_bytes_left_count_what_is_in_hand(at: Hand) -> None:
    """Followers too: their bodies are in memory."""
    before = at.hand.bytes_left
    at.take(1, 2)
    assert before - at.hand.bytes_left == 2 * len(delivery("1").body)
    at.clock.advance(MINUTE + timedelta(seconds=1))
    at.hand.drop_ended()
    assert at.hand.bytes_left == before
