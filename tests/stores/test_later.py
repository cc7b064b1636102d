"""The contract of work that a successful attempt asks for: made with its end, due at its moment."""

from datetime import timedelta

from receiver.core.claims import LaterWork
from receiver.core.types import HandlerSwitch, Trigger
from tests.stores.opened import (
    DAY,
    DEAD,
    DONE,
    NOTHING,
    ONE,
    SECOND,
    SKIPPED,
    TWO,
    WAITING,
    Opened,
    after_noon,
    ended,
)

HOUR = timedelta(hours=1)


async def test_later_work_is_made_with_the_success_and_is_due_at_its_moment(opened: Opened) -> None:
    """It belongs to the same delivery, and is an item like all others."""
    (work_id,) = await opened.items(1, claim=True)
    asked = (LaterWork(1, TWO, after_noon(HOUR)), LaterWork(1, ONE, after_noon(DAY)))

    assert await opened.settle(ended(work_id)._replace(later=asked)) == [True]

    made = {one.handler: one for one in await opened.work() if one.state is WAITING}
    assert {name: one.due_at for name, one in made.items()} == {TWO: after_noon(HOUR), ONE: after_noon(DAY)}
    assert await opened.next_due(TWO) == HOUR
    assert await opened.claimed(claimants=[ONE, TWO], now=HOUR - SECOND) == []
    (item,) = await opened.claim(claimants=[ONE, TWO], now=HOUR)
    assert (item.id, item.trigger, item.source.delivery.key) == (made[TWO].id, Trigger.LATER, "item-0")
    await opened.controls.bury([made[ONE].id], "not wanted any more", now=after_noon(HOUR))
    assert await opened.states(made[ONE].id) == [DEAD]


async def test_no_later_work_comes_of_an_attempt_that_failed_or_lost_its_lease(opened: Opened) -> None:
    """The next attempt asks again, and that one's work is made once."""
    (work_id,) = await opened.items(1, claim=True)
    asked = (LaterWork(1, TWO, after_noon(HOUR)),)
    await opened.settle(ended(work_id, WAITING, error="no")._replace(later=asked))
    await opened.claim()

    recorded = await opened.settle(
        ended(work_id, number=1)._replace(later=asked),
        ended(work_id, number=2)._replace(later=asked),
        ended(work_id, number=2)._replace(later=asked),
    )

    assert recorded == [False, True, False]
    assert [(one.handler, one.state) for one in await opened.work()] == [(TWO, WAITING), (ONE, DONE)]


async def test_later_work_of_a_disabled_handler_is_skipped(opened: Opened) -> None:
    await opened.controls.switch(TWO, HandlerSwitch.DISABLED)
    (work_id,) = await opened.items(1, claim=True)

    await opened.settle(ended(work_id)._replace(later=(LaterWork(1, TWO, after_noon(NOTHING)),)))

    assert [one.state for one in await opened.work(handler=TWO)] == [SKIPPED]
