"""The contract of a handler's limits over all workers: how many at one time, and how fast."""

import asyncio
import random
from datetime import timedelta

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim
from receiver.core.ports.store import Store
from receiver.core.types import HandlerSwitch
from tests.doubles import NOON, soon
from tests.stores.conftest import open_all
from tests.stores.opened import (
    DAY,
    DONE,
    LEASE,
    MICROSECOND,
    MUCH,
    NOTHING,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SUSPECTS,
    TWO,
    WAITING,
    A,
    B,
    C,
    Opened,
    after_noon,
    ended,
)

SLACK = timedelta(milliseconds=100)
"""How much earlier than its rate says an attempt may begin."""

# --- How many may be taken


@pytest.mark.parametrize("most", [0, 1, 3, 9])
async def test_of_a_handler_no_more_is_claimed_than_said(opened: Opened, most: int) -> None:
    """Other handlers get the room that is left."""
    await opened.items(4, ONE)
    await opened.items(4, TWO)

    items = await opened.claim(claimants=(HandlerClaim(ONE, most=most), TWO), wanted=ClaimLimits(5, MUCH))

    ones = min(most, 4)
    assert [item.handler for item in items] == [ONE] * ones + [TWO] * min(4, 5 - ones)


async def test_what_was_not_taken_waits_as_it_was(opened: Opened) -> None:
    """No attempt of it has started."""
    ids = await opened.items(2)

    assert await opened.claimed(claimants=(HandlerClaim(ONE, most=1),)) == ids[:1]

    seen = await opened.seen(ids[1])
    assert (seen.state, seen.attempts, seen.due_at) == (WAITING, 0, NOON)


# --- How many at one time


async def test_no_more_run_at_one_time_than_said(opened: Opened) -> None:
    """The limit counts all workers. An item that ends makes room for another."""
    ids = await opened.items(5)
    two_at_a_time = HandlerClaim(ONE, concurrency=2)

    assert await opened.claimed(A, (two_at_a_time,)) == ids[:2]
    assert await opened.claimed(B, (two_at_a_time,)) == []
    await opened.settle(ended(ids[0]))
    assert await opened.claimed(B, (two_at_a_time,)) == [ids[2]]
    await opened.queue.release_leases([ids[1]], A, now=after_noon(SECOND))
    assert await opened.claimed(B, (two_at_a_time,), now=SECOND) == [ids[3]]


async def test_a_retry_counts_like_any_other(opened: Opened) -> None:
    """It takes no room while it waits."""
    first, second = await opened.items(2)
    alone = HandlerClaim(ONE, concurrency=1)
    await opened.claim(claimants=(alone,))
    await opened.settle(ended(first, WAITING, error="x", due=SECOND))

    assert await opened.claimed(claimants=(alone,), now=SECOND) == [second]
    assert await opened.claimed(claimants=(alone,), now=SECOND) == []


async def test_other_handlers_have_limits_of_their_own(opened: Opened) -> None:
    """A handler that is full does not block others."""
    await opened.items(3, ONE)
    two = await opened.items(3, TWO)
    claimants = (HandlerClaim(ONE, concurrency=1), HandlerClaim(TWO, concurrency=2))
    await opened.claim(A, claimants[:1])

    assert await opened.claimed(B, claimants) == two[:2]


async def test_what_dead_workers_held_makes_room(opened: Opened) -> None:
    """The claim that notices the loss has the room, and may take the lost items."""
    ids = await opened.items(3)
    claimant = (HandlerClaim(ONE, concurrency=2),)
    await opened.claim(A, claimant)

    assert await opened.claimed(B, claimant, now=LEASE) == [ids[2], ids[0]]
    assert len(await opened.work(state=RUNNING)) == 2
    assert await opened.claimed(C, claimant, now=LEASE) == []


async def test_a_limit_that_was_lowered_holds(opened: Opened) -> None:
    """More items run than the new limit allows. None starts, and none is stopped."""
    ids = await opened.items(5)
    await opened.claim(claimants=(HandlerClaim(ONE, concurrency=3),))
    alone = (HandlerClaim(ONE, concurrency=1),)

    await opened.settle(ended(ids[0]))
    assert await opened.claimed(B, alone) == []
    await opened.settle(ended(ids[1]), ended(ids[2]))
    assert await opened.claimed(B, alone) == [ids[3]]


async def test_what_is_routed_to_a_worker_counts(opened: Opened) -> None:
    """Such an item runs at once."""
    await opened.items(2, claim=True)
    await opened.items(2)

    assert len(await opened.claim(B, (HandlerClaim(ONE, concurrency=3),))) == 1


async def test_workers_that_race_keep_to_the_limit(opened: Opened) -> None:
    """However their claims interleave, they get exactly as many items together as may run."""
    await opened.items(12)
    three = (HandlerClaim(ONE, concurrency=3),)

    for _ in range(4):
        claims = [opened.claim(worker, three, wanted=ClaimLimits(2, MUCH)) for worker in (A, B) * 5]
        items = [item for claimed in await soon(asyncio.gather(*claims)) for item in claimed]
        assert len(items) == 3
        assert sum(await opened.settle(*[ended(one.id, worker=worker) for one in items for worker in (A, B)])) == 3

    assert await opened.reports.count_unfinished() == 0


# --- How fast


def paced(interval: timedelta) -> tuple[HandlerClaim]:
    """Return the handler with a rate."""
    return (HandlerClaim(ONE, interval=interval),)


async def test_attempts_begin_their_interval_apart(opened: Opened) -> None:
    """That holds for all workers together, and no attempt begins later than it may."""
    ids = await opened.items(4)
    begun: list[tuple[timedelta, list[int]]] = []

    for step in range(70):
        now = timedelta(milliseconds=100) * step
        claimed = await opened.claimed(B if step % 3 else A, paced(SECOND * 2), now=now)
        begun += [(now, claimed)] if claimed else []

    assert [claimed for _, claimed in begun] == [[one] for one in ids]
    assert [now for now, _ in begun] == [NOTHING, *[SECOND * n - SLACK for n in (2, 4, 6)]]


@pytest.mark.parametrize("seed", range(3))
async def test_in_the_long_run_the_rate_is_exact(opened: Opened, seed: int) -> None:
    """Two workers claim at random moments. They never exceed the rate, and use all of it while there is work."""
    rng = random.Random(seed)
    interval = SECOND / 10
    await opened.items(400)
    now, begun = NOTHING, 0
    while now < SECOND * 20:
        begun += len(await opened.claim(rng.choice((A, B)), paced(interval), now=now))
        assert begun <= (now + SLACK) // interval + 1
        now += rng.random() * SLACK

    assert begun >= SECOND * 20 // interval - 1


async def test_a_rate_is_not_saved_up(opened: Opened) -> None:
    """After a quiet time no more attempts begin at once than usual."""
    await opened.items(5)
    await opened.claim(claimants=paced(SECOND))

    assert len(await opened.claim(claimants=paced(SECOND), now=DAY)) == 1


async def test_a_fast_rate_lets_some_begin_together(opened: Opened) -> None:
    """Those that fall due within a tenth of a second begin together, as nobody claims more often."""
    await opened.items(50)
    interval = timedelta(milliseconds=20)

    assert len(await opened.claim(claimants=paced(interval))) == 6
    assert await opened.claim(claimants=paced(interval)) == []
    assert len(await opened.claim(claimants=paced(interval), now=SECOND / 10)) == 5


async def test_a_rate_counts_what_was_claimed_and_no_more(opened: Opened) -> None:
    """Items that another limit or the bytes left behind do not count."""
    await opened.items(9, body=b"x" * 100)
    interval = timedelta(milliseconds=20)

    for wanted in (ClaimLimits(1, MUCH), ClaimLimits(9, 100), ClaimLimits(9, 0)):
        assert len(await opened.claim(claimants=paced(interval), wanted=wanted)) == 1
    assert len(await opened.claim(claimants=(HandlerClaim(ONE, None, interval, 1),))) == 1
    assert len(await opened.claim(claimants=paced(interval))) == 2


async def test_nothing_to_claim_costs_nothing_of_a_rate(opened: Opened) -> None:
    """A claim that finds nothing is no attempt."""
    for _ in range(5):
        assert await opened.claim(claimants=paced(DAY)) == []
    ids = await opened.items(1)

    assert await opened.claimed(claimants=paced(DAY)) == ids


async def test_a_retry_takes_its_turn_in_the_rate(opened: Opened) -> None:
    """The rate limits all attempts, also retries."""
    (work_id,) = await opened.items(1)
    await opened.claim(claimants=paced(SECOND))
    await opened.settle(ended(work_id, WAITING, error="x"))

    assert await opened.claimed(claimants=paced(SECOND), now=SECOND / 2) == []
    assert await opened.claimed(claimants=paced(SECOND), now=SECOND) == [work_id]


async def test_a_suspect_takes_its_turn_in_the_rate(opened: Opened) -> None:
    """The other items wait for their turn after it."""
    suspect, _ = await opened.items(1, claim=True, starts=True) + await opened.items(1)

    assert len(await opened.claim(B, paced(SECOND), now=LEASE)) == 1
    assert await opened.claimed(B, paced(SECOND), now=LEASE, wanted=SUSPECTS) == []
    assert await opened.claimed(B, paced(SECOND), now=LEASE + SECOND, wanted=SUSPECTS) == [suspect]


async def test_handlers_have_rates_of_their_own(opened: Opened) -> None:
    """A handler that has to wait does not block others."""
    await opened.items(2, ONE)
    await opened.items(2, TWO)
    claimants = (HandlerClaim(ONE, interval=SECOND), HandlerClaim(TWO, interval=SECOND))

    assert [item.handler for item in await opened.claim(claimants=claimants)] == [ONE, TWO]
    assert await opened.claim(B, claimants) == []


async def test_a_restart_does_not_let_a_rate_burst(store: Store) -> None:
    """The store keeps the rate, and a switch that changed meanwhile does not reset it."""
    async with open_all(store) as opened:
        await opened.items(3)
        await opened.claim(claimants=paced(LEASE))
        await opened.controls.switch(ONE, HandlerSwitch.PAUSED)
        await opened.controls.switch(ONE, HandlerSwitch.ON)

    async with open_all(store) as opened:
        assert await opened.claim(B, paced(LEASE), now=SECOND) == []
        assert len(await opened.claim(B, paced(LEASE), now=LEASE)) == 1


async def test_a_clock_that_is_set_back_stops_no_handler(opened: Opened) -> None:
    """No handler waits until the old moment comes again, and the rate holds from the new one on."""
    await opened.items(9)
    await opened.claim(claimants=paced(SECOND), now=NOTHING)

    back = -DAY
    await opened.items(9, now=back)
    counts = [len(await opened.claim(claimants=paced(SECOND), now=back + SECOND / 2 * n)) for n in range(5)]

    assert counts == [1, 0, 1, 0, 1]


async def test_a_clock_that_jumped_ahead_and_back_stops_no_handler(opened: Opened) -> None:
    """One item is claimed a day ahead. Back at the right time the rate holds."""
    await opened.items(9)
    assert len(await opened.claim(claimants=paced(SECOND), now=DAY)) == 1

    counts = [len(await opened.claim(claimants=paced(SECOND), now=SECOND / 2 * n)) for n in range(5)]

    assert counts == [1, 0, 1, 0, 1]


async def test_what_a_rate_keeps_back_is_due_when_it_allows(opened: Opened) -> None:
    """The worker sleeps until exactly then, and a claim at that moment finds an item."""
    await opened.items(2)
    await opened.claim(claimants=paced(SECOND * 30))
    await opened.settle(*[ended(one.id) for one in await opened.work(state=RUNNING)])

    due = await opened.next_due(*paced(SECOND * 30))

    assert due == SECOND * 30 - SLACK
    assert await opened.claim(claimants=paced(SECOND * 30), now=due - MICROSECOND) == []
    assert len(await opened.claim(claimants=paced(SECOND * 30), now=due)) == 1


async def test_a_rate_does_not_hasten_what_is_due_later(opened: Opened) -> None:
    """A rate does not change when leases end either."""
    (work_id,) = await opened.items(1, claim=True)
    assert await opened.next_due(*paced(DAY)) == LEASE

    await opened.settle(ended(work_id, WAITING, error="x", due=LEASE * 5))

    assert await opened.next_due(*paced(SECOND)) == LEASE * 5


# --- Together


async def test_a_lane_with_limits_stays_in_order(opened: Opened) -> None:
    """An item that a limit keeps back stays the head."""
    ids = await opened.items(3, lane="l")
    claimants = (HandlerClaim(ONE, concurrency=2, interval=SECOND),)

    for n, work_id in enumerate(ids):
        now = SECOND * n
        assert await opened.claimed(B, claimants, now=now) == [work_id]
        await opened.settle(ended(work_id, worker=B, at=now))
        assert await opened.states(*ids) == [DONE] * (n + 1) + [WAITING] * (n < 2) + [QUEUED] * (1 - n)
        assert await opened.claimed(B, claimants, now=now) == []
