"""The contract of reports about the handlers that failed with a delivery."""

from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import AttemptOutcome, Trigger
from receiver.core.work import Attempt, RecordedRun
from tests.doubles import NOON
from tests.stores.opened import DEAD, DONE, ONE, QUEUED, RUNNING, SECOND, TWO, WAITING, Opened, after_noon, ended


async def failed(opened: Opened, seq: int) -> set[str]:
    return set(await opened.reports.failed_handlers(seq))


async def test_handlers_whose_item_is_dead_have_failed(opened: Opened) -> None:
    """Only handlers of this delivery are named."""
    await opened.items(1)
    await opened.in_state(DEAD)
    await opened.in_state(DEAD, TWO)
    await opened.in_state(DONE)

    assert [await failed(opened, seq) for seq in (1, 2, 3, 4)] == [set(), {"one"}, {"two"}, set()]


async def test_handlers_whose_last_attempt_failed_have_failed(opened: Opened) -> None:
    """They are named until an attempt succeeds, whatever happens to the item in between."""
    [item] = await opened.items(1, claim=True)
    assert await failed(opened, 1) == set()

    await opened.settle(ended(item, WAITING, error="slow"))
    assert await failed(opened, 1) == {"one"}
    [again] = await opened.claimed(now=SECOND)
    assert await failed(opened, 1) == {"one"}

    await opened.settle(ended(again, DONE, number=2))
    assert await failed(opened, 1) == set()


async def test_what_never_ran_has_not_failed(opened: Opened) -> None:
    """Such an item waits, is queued or runs."""
    for state in (WAITING, QUEUED, RUNNING):
        await opened.in_state(state)

    assert [await failed(opened, seq) for seq in range(1, 5)] == [set()] * 4


async def test_a_delivery_can_have_failed_with_several_handlers(opened: Opened) -> None:
    """Each handler is named once, also if it failed in a replay beside its own item."""
    await opened.in_state(DEAD)
    attempt = Attempt(1, Trigger.REPLAY, NOON, NOON, AttemptOutcome.FAILED, "no")
    await opened.controls.record(
        [RecordedRun(1, name, attempt, DEAD) for name in (ONE, TWO, TWO)], now=after_noon(SECOND)
    )

    assert await failed(opened, 1) == {"one", "two"}
    assert await opened.keys(failed=True) == ["item-0"]
    assert (await opened.reports.plan(DeliveryFilter(failed=True, handler="two"))).count == 1


async def test_nothing_failed_with_a_delivery_that_is_not_there(opened: Opened) -> None:
    """An unknown delivery is no error."""
    assert await failed(opened, 99) == set()
