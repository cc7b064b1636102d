"""The leases that a worker keeps, over a store in memory and a clock that is moved by hand."""

from datetime import timedelta

from receiver.core.claims import WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.types import HandlerName, Trigger, WorkerId
from receiver.routing import Router
from receiver.worker.attempts import Claimed
from receiver.worker.leases import Leases
from tests.doubles import NOON, OpenStore, delivery

MINUTE = timedelta(minutes=1)


def nothing(event: object) -> None:
    """Do nothing."""


class LeaseBench:
    """The leases of one worker."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOON)
        self.leases = Leases(OpenStore(), self.clock, WorkerId("me"), MINUTE)
        router = Router()
        router.add(nothing, "*", name="h")
        self._handler = router[HandlerName("h")]

    def add(self, work_id: int, attempt: int = 1) -> None:
        """Lease a work item from now on."""
        stored = StoredDelivery(1, 0, delivery())
        item = WorkItem(work_id, self._handler.name, attempt, 0, 0, Trigger.DELIVERY, stored)
        self.leases.add([Claimed(item, self._handler)], self.leases.new_lease())


def test_a_lease_has_ended_when_its_time_is_over() -> None:
    """From then on another worker may have the item, and nobody tells this worker."""
    bench = LeaseBench()
    bench.add(1)
    bench.clock.advance(MINUTE / 2)
    bench.add(2)
    assert not bench.leases.any_ended()

    bench.clock.advance(MINUTE / 2)

    assert bench.leases.any_ended()
    assert bench.leases.ended(1)
    assert not bench.leases.ended(2)


async def test_a_renewal_in_time_moves_the_end() -> None:
    """The end of every lease."""
    bench = LeaseBench()
    bench.add(1)
    bench.clock.advance(MINUTE * 0.9)
    bench.add(2)

    await bench.leases.renew_if_late()

    bench.clock.advance(MINUTE * 0.9)
    assert not bench.leases.any_ended()
    assert not bench.leases.ended(1)
    assert not bench.leases.ended(2)


async def test_a_renewal_that_comes_too_late_proves_nothing() -> None:
    """The store renews only leases that this worker still has, and does not say which."""
    bench = LeaseBench()
    bench.add(1)
    bench.clock.advance(MINUTE)
    bench.add(2)

    await bench.leases.renew_if_late()

    assert bench.leases.any_ended()
    assert bench.leases.ended(1)
    assert not bench.leases.ended(2)


def test_a_dropped_lease_has_no_end() -> None:
    """It cannot be the lease that ends first."""
    bench = LeaseBench()
    bench.add(1)
    bench.leases.drop(1)
    bench.clock.advance(MINUTE)

    assert not bench.leases.any_ended()
    assert bench.leases.ended(1)


def test_the_late_end_of_a_lost_attempt_keeps_the_lease_of_the_next_one() -> None:
    """A worker that was blocked may claim an item again that it still runs. The bytes count once."""
    bench = LeaseBench()
    bench.add(1, attempt=1)
    held = bench.leases.bytes
    bench.add(1, attempt=2)
    assert bench.leases.bytes == held

    bench.leases.drop_attempt(1, 1)
    assert 1 in bench.leases

    bench.leases.drop_attempt(1, 2)
    assert 1 not in bench.leases
    assert bench.leases.bytes == 0
