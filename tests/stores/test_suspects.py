"""The contract of work items that may have killed their workers."""

from datetime import timedelta

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim
from receiver.core.rules import suspicious
from receiver.core.types import HandlerName, HandlerSwitch
from tests.doubles import NOON
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


async def due(opened: Opened, *handlers: HandlerName, now: timedelta = DAY) -> bool:
    """Tell whether a suspect is due."""
    claimants = [HandlerClaim(name) for name in handlers or (ONE,)]
    return await opened.queue.suspects_due(claimants, now=after_noon(now))


async def suspect(opened: Opened, handler: HandlerName = ONE, lane: str | None = None) -> int:
    """Return a work item whose worker lost its lease after it had started. It is due since LEASE."""
    (work_id,) = await opened.items(1, handler, claim=True, starts=True, lane=lane)
    await opened.claim(B, (handler,), now=LEASE, wanted=ClaimLimits(0, MUCH))  # takes it back, and claims nothing
    return work_id


# --- What makes a suspect


HISTORIES = ["", "l", "s", "d", "w", "ll", "ls", "ss", "sss", "ld", "dl", "dd", "sd", "ds", "ww", "wd", "lll"]
HISTORIES += ["lf", "fl", "lfl", "ldf", "sfs", "fss"]


@pytest.mark.parametrize("history", HISTORIES)
async def test_an_item_is_suspected_by_how_its_attempts_ended(opened: Opened, history: str) -> None:
    """Of each attempt there is a letter for its end.

    s: its worker lost the lease after it had started; l: before it had started, as far as is known; d: its worker
    died after it had started; w: its worker died before; f: it failed, and its worker lives.
    """
    (work_id,) = await opened.items(1)
    now, guilty, lost, uncounted = NOTHING, False, 0, 0
    for number, end in enumerate(history, start=1):
        wanted = ClaimLimits(1, MUCH, int(end in "sd"), suspects=guilty)
        assert [item.attempt for item in await opened.claim(now=now, wanted=wanted)] == [number]
        if end in "dw":
            assert await opened.queue.expire_leases_of(A, now=after_noon(now)) == 1
        elif end == "f":
            assert await opened.settle(ended(work_id, WAITING, number=number, error="x")) == [True]
            now += LEASE
            continue
        now += LEASE
        await opened.claim(B, now=now, wanted=ClaimLimits(0, MUCH))  # takes back what was lost
        lost, uncounted = lost + 1, uncounted + (not guilty)
        guilty = suspicious(suspect=guilty, started=end in "sd", lost=lost)

    assert await due(opened) is guilty
    assert await opened.claimed(now=now, wanted=ClaimLimits(9, MUCH, suspects=not guilty)) == []
    (item,) = await opened.claim(now=now, wanted=ClaimLimits(9, MUCH, suspects=guilty))
    assert (item.deaths, item.uncounted, item.attempt) == (history.count("d"), uncounted, len(history) + 1)


async def test_an_item_that_starts_when_it_is_routed_has_started(opened: Opened) -> None:
    """Its worker runs it at once, and may die in the next moment."""
    started, other = await opened.items(1, claim=True, starts=True) + await opened.items(1, claim=True)

    assert await opened.claimed(B, now=LEASE) == [other]
    assert await opened.claimed(B, now=LEASE, wanted=SUSPECTS) == [started]


@pytest.mark.parametrize("starting", [0, 1, 3, 9])
async def test_the_first_items_of_a_claim_have_started(opened: Opened, starting: int) -> None:
    """The claim says how many start. The others wait in their worker."""
    ids = await opened.items(2, ONE) + await opened.items(2, TWO)
    claimed = await opened.claimed(claimants=(ONE, TWO), wanted=ClaimLimits(9, MUCH, starting))
    assert claimed == ids

    assert set(await opened.claimed(B, (ONE, TWO), now=LEASE)) == set(ids[starting:])
    items = await opened.claim(B, (ONE, TWO), now=LEASE, wanted=SUSPECTS)
    assert {(item.id, item.deaths) for item in items} == {(work_id, 0) for work_id in ids[:starting]}


async def test_items_that_are_marked_have_started(opened: Opened) -> None:
    """Only the named items are marked."""
    first, second, third = await opened.items(3, claim=True)

    await opened.queue.mark_started([first, third], A)

    assert await opened.claimed(B, now=LEASE) == [second]
    assert set(await opened.claimed(B, now=LEASE, wanted=SUSPECTS)) == {first, third}


async def test_items_that_are_cleared_have_not_started(opened: Opened) -> None:
    """Their holder clears them, as a worker that is told to stop may be killed before it has stopped."""
    first, second, third = await opened.items(3, claim=True)
    await opened.queue.mark_started([first, second, third], A)

    await opened.queue.clear_started([first, second], A)
    await opened.queue.clear_started([third], B)

    assert set(await opened.claimed(B, now=LEASE)) == {first, second}
    assert await opened.claimed(B, now=LEASE, wanted=SUSPECTS) == [third]


async def test_only_the_holder_marks_items(opened: Opened) -> None:
    """Another worker, one that lost the item, and one that returned it change nothing."""
    other, lost, given_back = await opened.items(3, claim=True)
    await opened.queue.mark_started([other], B)
    await opened.queue.release_leases([given_back], A, now=NOON)
    await opened.queue.mark_started([given_back, 0, 12_345], A)
    assert await opened.claimed(C) == [given_back]
    await opened.queue.mark_started([given_back], A)

    items = await opened.claim(B, now=LEASE)
    await opened.queue.mark_started([lost], A)

    assert {(item.id, item.deaths) for item in items} == {(one, 0) for one in (other, lost, given_back)}
    assert {item.deaths for item in await opened.claim(C, now=LEASE * 2, wanted=SUSPECTS)} == {0}


async def test_a_worker_that_stops_in_good_order_is_no_death(opened: Opened) -> None:
    """It returns the items that had started, and they start again."""
    (work_id,) = await opened.items(1, claim=True, starts=True)
    await opened.queue.release_leases([work_id], A, now=NOON)
    await opened.claim(B)

    (item,) = await opened.claim(C, now=LEASE)

    assert (item.id, item.deaths, item.uncounted) == (work_id, 0, 1)


async def test_an_attempt_that_ended_is_no_death(opened: Opened) -> None:
    """Only the present attempt counts."""
    (work_id,) = await opened.items(1, claim=True, starts=True)
    await opened.settle(ended(work_id, WAITING, error="x"))
    await opened.claim(B)

    (item,) = await opened.claim(C, now=LEASE)

    assert (item.id, item.deaths, item.uncounted) == (work_id, 0, 1)


async def test_a_worker_that_was_killed_is_a_death(opened: Opened) -> None:
    """That is known at once, before its leases end."""
    begun, waiting = await opened.items(2, claim=True)
    await opened.queue.mark_started([begun], A)
    await opened.queue.expire_leases_of(A, now=NOON)

    assert await opened.claimed(B) == [waiting]
    (item,) = await opened.claim(B, wanted=SUSPECTS)
    assert (item.id, item.deaths) == (begun, 1)


async def test_deaths_are_counted(opened: Opened) -> None:
    """Callers decide by the number."""
    work_id = await suspect(opened)
    alone = ClaimLimits(1, MUCH, 1, suspects=True)

    items = []
    for n in range(1, 4):
        items += await opened.claim(now=LEASE * n, wanted=alone)
        await opened.queue.expire_leases_of(A, now=after_noon(LEASE * n))

    assert [(item.id, item.deaths) for item in items] == [(work_id, 0), (work_id, 1), (work_id, 2)]


# --- How suspects are claimed


async def test_suspects_are_claimed_by_themselves(opened: Opened) -> None:
    """Nothing else is claimed with them, and usual claims leave them out."""
    suspected = await suspect(opened)
    (other,) = await opened.items(1)

    assert await opened.claimed(B, now=LEASE) == [other]
    (harmless,) = await opened.items(1)
    assert await opened.claimed(B, now=LEASE, wanted=SUSPECTS) == [suspected]
    assert await opened.states(harmless) == [WAITING]


async def test_suspects_are_claimed_within_all_limits(opened: Opened) -> None:
    """These are number, bytes, handlers and due time."""
    first = await suspect(opened)
    second = await suspect(opened)
    other = await suspect(opened, TWO)

    assert await opened.claimed(now=LEASE - MICROSECOND, wanted=SUSPECTS) == []
    assert await opened.claimed(now=LEASE, wanted=ClaimLimits(1, MUCH, suspects=True)) == [first]
    assert await opened.claimed(claimants=(HandlerClaim(ONE, 1),), now=LEASE, wanted=SUSPECTS) == []
    assert await opened.claimed(now=LEASE, wanted=ClaimLimits(9, 0, suspects=True)) == [second]
    assert await opened.claimed(claimants=(TWO,), now=LEASE, wanted=SUSPECTS) == [other]


async def test_a_worker_sees_that_a_suspect_is_due(opened: Opened) -> None:
    """It sees it at the due time, if it has the handler."""
    assert not await due(opened)
    await opened.items(1)
    assert not await due(opened)
    await suspect(opened)

    assert not await due(opened, now=LEASE - MICROSECOND)
    assert await due(opened, now=LEASE)
    assert not await due(opened, TWO)
    assert await due(opened, TWO, ONE)
    assert not await opened.queue.suspects_due([], now=after_noon(DAY))


async def test_a_suspect_that_runs_or_is_done_is_not_due(opened: Opened) -> None:
    """It runs alone already, or never again. After a failure it is a suspect still."""
    work_id = await suspect(opened)
    await opened.claim(now=LEASE, wanted=SUSPECTS)
    assert not await due(opened, now=LEASE)

    await opened.settle(ended(work_id, WAITING, number=2, error="x", due=LEASE))
    assert await due(opened, now=LEASE)

    await opened.claim(now=LEASE, wanted=SUSPECTS)
    await opened.settle(ended(work_id, number=3))
    assert not await due(opened)


@pytest.mark.parametrize("to", [HandlerSwitch.PAUSED, HandlerSwitch.DISABLED])
async def test_a_suspect_of_a_handler_that_is_off_is_not_due(opened: Opened, to: HandlerSwitch) -> None:
    """No worker should stop its other work for it."""
    await suspect(opened)

    await opened.controls.switch(ONE, to)

    assert not await due(opened)
    assert await opened.claim(now=DAY, wanted=SUSPECTS) == []


async def test_a_suspect_is_something_to_wait_for(opened: Opened) -> None:
    """The worker wakes for it as for any other item."""
    work_id = await suspect(opened)
    await opened.claim(now=LEASE, wanted=SUSPECTS)
    await opened.settle(ended(work_id, WAITING, number=2, error="x", due=LEASE * 5))

    assert await opened.next_due(ONE) == LEASE * 5


async def test_a_suspect_keeps_its_place_in_its_lane(opened: Opened) -> None:
    """The items behind it wait until it has run or is dead."""
    first = await suspect(opened, lane="l")
    (second,) = await opened.items(1, lane="l", claim=True)

    assert await opened.claim(now=DAY) == []
    assert await opened.claimed(now=DAY, wanted=SUSPECTS) == [first]
    assert await opened.states(first, second) == [RUNNING, QUEUED]
    await opened.settle(ended(first, number=2, at=SECOND))
    assert await opened.states(first, second) == [DONE, WAITING]
