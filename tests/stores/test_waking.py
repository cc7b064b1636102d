"""The contract of waiting: until when, and what wakes a worker before."""

import asyncio

from receiver.core.claims import HandlerClaim
from receiver.core.types import HandlerName, HandlerSwitch
from receiver.core.work import Hold
from tests.doubles import delivery, soon
from tests.stores.opened import DEAD, LEASE, NOTHING, ONE, SECOND, TWO, WAITING, Opened, after_noon, ended


async def test_the_next_due_time_is_the_earliest_of_the_handlers(opened: Opened) -> None:
    """Waiting and held items count, and running ones at the end of their lease."""
    (one,) = await opened.items(1, ONE, claim=True)
    (two,) = await opened.items(1, TWO, claim=True)
    assert await opened.next_due(ONE, TWO) == LEASE

    await opened.settle(ended(two, WAITING, error="x", due=SECOND))

    assert await opened.next_due(ONE, TWO) == await opened.next_due(TWO, ONE) == SECOND
    assert await opened.next_due(ONE) == LEASE
    await opened.items(1, ONE, hold=Hold(after_noon(SECOND * 2), after_noon(LEASE * 2)))
    assert await opened.next_due(ONE) == SECOND * 2
    await opened.settle(ended(one, WAITING, error="x", due=SECOND / 2))
    assert await opened.next_due(ONE) == SECOND / 2


async def test_of_a_handler_of_which_nothing_is_wanted_only_the_checks_are_waited_for(opened: Opened) -> None:
    """Its limit is used up, and the worker knows that. Only held items, and those to skip, need it nevertheless."""
    nothing = HandlerClaim(ONE, most=0)
    await opened.items(1)
    assert await opened.next_due(nothing) is None
    assert await opened.next_due(nothing, TWO) is None

    await opened.items(1, ONE, hold=Hold(after_noon(SECOND * 2), after_noon(LEASE * 2)))
    assert await opened.next_due(nothing) == SECOND * 2

    await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
    assert await opened.next_due(nothing) == NOTHING


async def test_the_handlers_not_named_are_nothing_to_wait_for(opened: Opened) -> None:
    """A worker without a handler cannot run its work."""
    await opened.items(1)

    assert await opened.next_due() is None
    assert await opened.next_due(TWO, HandlerName("other")) is None


async def test_the_next_due_time_may_have_passed(opened: Opened) -> None:
    """A limit may have kept the item back."""
    await opened.items(1)

    assert await opened.next_due(ONE, now=LEASE) == NOTHING


async def test_what_is_queued_or_over_is_nothing_to_wait_for(opened: Opened) -> None:
    """A queued item is due when the item before it has ended."""
    first, _, dead = await opened.items(2, lane="l", claim=True) + await opened.items(1, claim=True)
    await opened.settle(ended(first, DEAD, error="x", holds_lane=True), ended(dead, DEAD, error="x"))

    assert await opened.next_due(ONE) is None


async def test_a_worker_is_woken_by_what_the_log_appends(opened: Opened) -> None:
    """It wakes after a long wait too, and again for each new delivery."""
    await opened.add(delivery("before"))
    await soon(opened.queue.changed())

    for key in ("a", "b"):
        waiting = asyncio.create_task(opened.queue.changed())
        await opened.add(delivery(key))
        await soon(waiting)


async def test_a_change_before_the_call_is_not_missed(opened: Opened) -> None:
    """A delivery that was appended since the last call ends the next one."""
    await opened.add(delivery("a"))
    await soon(opened.queue.changed())
    await opened.add(delivery("b"))

    await soon(opened.queue.changed())


async def test_a_worker_is_woken_by_what_an_operator_decides(opened: Opened) -> None:
    """A retry is due at once, and a lane whose head was buried goes on."""
    ids = await opened.items(2, lane="l")
    await soon(opened.queue.changed())

    await opened.controls.bury(ids[:1], "x", now=after_noon(NOTHING))
    await soon(opened.queue.changed())

    await opened.controls.retry(ids[:1], now=after_noon(NOTHING))
    await soon(opened.queue.changed())
