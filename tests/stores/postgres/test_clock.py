"""The clock of the database, on machines whose own clocks are wrong."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.clock import Clock, SystemClock, VirtualClock
from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import WorkerId
from receiver.core.work import NewWork
from receiver.stores.postgres.clock import DatabaseClock
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import NOON, appended, delivery, soon
from tests.stores.opened import LEASE, MUCH, ONE, SECOND, A, B, ended
from tests.stores.outside import PostgresTables

HOUR = timedelta(hours=1)
CLOSE = timedelta(seconds=30)
"""More than a busy machine takes for a round trip."""


class WrongClock(SystemClock):
    """The clock of a machine that is ahead, or behind."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead

    def steady(self) -> datetime:
        return super().steady() + self._ahead * 7

    def steady_with_sleep(self) -> datetime:
        return super().steady_with_sleep() + self._ahead * 7


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, HOUR * 0])
async def test_a_machine_with_a_wrong_clock_has_the_time_of_the_database(
    postgres_url: str, ahead: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    """Both its clocks are that of the database then, and a large difference is told once."""
    async with PostgresStore(postgres_url).clock(WrongClock(ahead)) as clock:
        for moment in (clock.now(), clock.steady()):
            assert abs(moment - SystemClock().now()) < CLOSE
    assert ("clock_differs" in caplog.text) == (ahead != HOUR * 0)


async def test_machines_an_hour_apart_keep_each_others_leases(postgres_url: str) -> None:
    """By its own clock, the second would take every lease of the first from it at once."""
    store = PostgresStore(postgres_url)
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(store.log())
        behind, ahead = [await stack.enter_async_context(store.clock(WrongClock(by))) for by in (-HOUR, HOUR)]
        first = await stack.enter_async_context(store.queue())
        second = await stack.enter_async_context(store.queue())
        await soon(appended(log, delivery(received_at=behind.now())))
        batch = await first.routing_batch(limit=9, max_bytes=MUCH)
        work = [NewWork(one.seq, ONE) for one in batch.deliveries]
        lease = Lease(A, behind.steady() + LEASE)
        assert await first.route(batch, work, lease=lease, now=behind.now()) == [1]

        async def claimed_by_second(now: datetime) -> int:
            lease = Lease(B, now + LEASE)
            return len(await second.claim([HandlerClaim(ONE)], ClaimLimits(9, MUCH), lease=lease, now=now))

        assert await claimed_by_second(ahead.steady()) == 0
        assert await claimed_by_second(WrongClock(HOUR).now()) == 1


class PausedMachine(SystemClock):
    """A machine whose clock no one sets, and which its hypervisor has paused or moved to another one."""

    def __init__(self) -> None:
        self.moved = timedelta(0)

    def steady_with_sleep(self) -> datetime:
        return super().steady_with_sleep() + self.moved


@asynccontextmanager
async def two_machines(url: str) -> AsyncIterator[tuple[PausedMachine, Clock, WorkQueue, WorkQueue, DeliveryLog]]:
    """Yield a machine, the clock that it shows, its queue, the queue of another machine, and a log."""
    store, other, machine = PostgresStore(url), PostgresStore(url), PausedMachine()
    async with (
        store.log() as log,
        store.queue() as queue,
        store.clock(machine) as clock,
        other.queue() as second,
        other.clock(SystemClock()),
    ):
        yield machine, clock, queue, second, log


async def route(queue: WorkQueue, log: DeliveryLog, key: str, *, worker: WorkerId, claim: bool = True) -> int:
    """Append a delivery and route it now; return its work item."""
    now = WrongClock(timedelta(0)).now()
    await soon(appended(log, delivery(key, received_at=now)))
    batch = await queue.routing_batch(limit=9, max_bytes=MUCH)
    work = [NewWork(one.seq, ONE, claim) for one in batch.deliveries]
    (work_id,) = await queue.route(batch, work, lease=Lease(worker, now + LEASE), now=now) or [0]
    return work_id or 0


async def claimed(queue: WorkQueue, clock: Clock, worker: WorkerId = A) -> list[int]:
    """Claim what is due by this clock."""
    now, lease = clock.now(), Lease(worker, clock.steady() + LEASE)
    return [one.id for one in await queue.claim([HandlerClaim(ONE)], ClaimLimits(9, MUCH), lease=lease, now=now)]


async def test_a_machine_that_was_paused_does_not_move_the_others_work_back(postgres_url: str) -> None:
    """Its clock is ten minutes behind. It asks the database before it believes that all clocks were set back."""
    async with two_machines(postgres_url) as (machine, clock, queue, other, log):
        await route(other, log, "a", worker=B, claim=False)
        PostgresTables(postgres_url).run("UPDATE work_items SET due_at = due_at + 1800000000")
        before = PostgresTables(postgres_url).select("SELECT due_at FROM work_items")
        machine.moved -= HOUR / 6

        assert await claimed(queue, clock) == []

        assert PostgresTables(postgres_url).select("SELECT due_at FROM work_items") == before
        assert abs(clock.now() - SystemClock().now()) < CLOSE


async def test_a_machine_whose_clock_jumped_takes_no_lease_of_the_living(postgres_url: str) -> None:
    """By its clock the lease has ended long ago, and by that of the database it has just begun."""
    async with two_machines(postgres_url) as (machine, clock, queue, other, log):
        held = await route(other, log, "a", worker=B)
        machine.moved += HOUR

        assert await claimed(queue, clock) == await claimed(queue, clock) == []

        assert await other.settle([ended(held, worker=B)]) == [True]


async def test_what_a_paused_machine_lost_it_cannot_settle(postgres_url: str) -> None:
    """Another one has taken the lease, and only its end of the attempt counts."""
    async with two_machines(postgres_url) as (machine, _, queue, other, log):
        held = await route(queue, log, "a", worker=A)
        machine.moved -= HOUR
        PostgresTables(postgres_url).run("UPDATE work_items SET lease_until = 0")
        assert await claimed(other, WrongClock(timedelta(0)), B) == [held]

        late, good = ended(held), ended(held, worker=B, number=2)
        assert await queue.settle([late]) == [False]
        assert await other.settle([good]) == [True]
        assert await queue.settle([late]) == [False]


@pytest.mark.parametrize("moved", [HOUR, -HOUR])
async def test_a_worker_that_waits_sees_that_its_machine_was_paused(postgres_url: str, moved: timedelta) -> None:
    """Whatever it asks the database tells the time, so the next comparison need not be awaited."""
    async with two_machines(postgres_url) as (machine, clock, queue, _, _):
        await soon(queue.changed())
        for look in (queue.changed, lambda: queue.routing_batch(limit=1, max_bytes=1)):
            machine.moved += moved
            await soon(look())

            assert abs(clock.steady() - SystemClock().now()) < CLOSE


def test_small_differences_are_made_up_for_little_by_little() -> None:
    """No moment is left out, and none comes twice."""
    machine = VirtualClock(NOON)
    clock = DatabaseClock(machine)
    clock.compare(NOON, NOON + HOUR)
    assert clock.now() == NOON + HOUR

    clock.compare(NOON, NOON + HOUR - SECOND)
    seen = [clock.now()]
    for _ in range(30):
        machine.advance(SECOND)
        seen.append(clock.now())

    assert seen == sorted(set(seen))
    assert seen[0] == NOON + HOUR
    assert seen[-1] == machine.now() + HOUR - SECOND


def test_a_clock_of_the_database_that_was_set_is_followed_at_once() -> None:
    """All other processes do the same."""
    clock = DatabaseClock(VirtualClock(NOON))
    clock.compare(NOON, NOON)

    clock.compare(NOON, NOON - HOUR)

    assert clock.now() == NOON - HOUR


def test_a_machine_that_was_suspended_has_the_right_time_at_once() -> None:
    """Else its leases had ended before they began, and once keys would expire for everybody with its old time."""
    clock, asleep = VirtualClock(), [timedelta(0)]
    shown = DatabaseClock(clock, lambda: clock.steady() + asleep[0])
    shown.compare(shown.here(), NOON)

    asleep[0] = HOUR

    assert shown.now() == shown.steady() == NOON + HOUR


def test_the_machine_tells_how_long_it_was_suspended() -> None:
    """That clock is never behind the one that stands still meanwhile, and neither goes back."""
    clock = SystemClock()
    first = clock.steady()
    second = clock.steady_with_sleep()

    assert first <= second <= clock.steady_with_sleep()
