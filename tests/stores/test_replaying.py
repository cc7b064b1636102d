"""The contract of work that replays and recorded runs make."""

import pytest

from receiver.core.bulk import Imported
from receiver.core.recorded_actions import NewAction
from receiver.core.types import AttemptOutcome, HandlerSwitch, Origin, Trigger, WorkState
from receiver.core.work import Attempt, Hold, NewWork, RecordedRun
from tests.doubles import NOON, delivery
from tests.stores.opened import (
    AFTER,
    DEAD,
    DONE,
    HELD,
    NOTHING,
    ONE,
    QUEUED,
    RUNNING,
    SECOND,
    SKIPPED,
    TWO,
    WAITING,
    Opened,
    after_noon,
    ended,
)


async def replay(opened: Opened, *work: NewWork) -> int:
    """Enqueue at noon."""
    return await opened.controls.enqueue(work, now=NOON)


async def test_what_had_succeeded_is_made_again(opened: Opened) -> None:
    """A new work item stands beside the old one. It is due at once, for any worker, and its trigger is a replay."""
    done = await opened.in_state(DONE)

    assert await replay(opened, NewWork(1, ONE)) == 1

    assert await opened.states(done, done + 1) == [DONE, WAITING]
    (claimed,) = await opened.claim()
    assert (claimed.id, claimed.attempt, claimed.trigger) == (done + 1, 1, Trigger.REPLAY)
    assert claimed.source.seq == 1
    await opened.settle(ended(claimed.id, WAITING, error="no", trigger=Trigger.REPLAY))
    (again,) = await opened.claim()
    assert again.trigger is Trigger.RETRY


async def test_another_trigger_is_kept(opened: Opened) -> None:
    """A backfill stays a backfill."""
    await opened.items(1)
    await replay(opened, NewWork(1, TWO, trigger=Trigger.BACKFILL))

    assert [one.trigger for one in await opened.claim(claimants=[TWO])] == [Trigger.BACKFILL]


async def test_a_lane_is_obeyed(opened: Opened) -> None:
    """New work stands behind the work of its lane that runs or waits, in the order given."""
    (running,) = await opened.items(1, claim=True, lane="lane")

    await replay(opened, NewWork(1, ONE, lane="lane"), NewWork(1, ONE, lane="other"), NewWork(1, ONE, lane="other"))

    assert await opened.states(running, 2, 3, 4) == [RUNNING, QUEUED, WAITING, QUEUED]
    await opened.settle(ended(running))
    assert await opened.states(2) == [WAITING]


@pytest.mark.parametrize(
    ("switch", "hold", "state"),
    [
        (HandlerSwitch.PAUSED, False, WAITING),
        (HandlerSwitch.DISABLED, False, SKIPPED),
        (HandlerSwitch.ON, True, HELD),
        (HandlerSwitch.DISABLED, True, SKIPPED),
    ],
)
async def test_holds_and_switches_are_obeyed(
    opened: Opened, switch: HandlerSwitch, hold: bool, state: WorkState
) -> None:
    """They count as in routing, whatever the work item asks for."""
    await opened.items(1, TWO)
    await opened.controls.switch(ONE, switch)

    made = await replay(
        opened, NewWork(1, ONE, claim=True, starts=True, hold=Hold(after_noon(SECOND), AFTER) if hold else None)
    )

    assert made == 1
    assert await opened.states(2) == [state]


async def test_what_was_imported_can_be_replayed(opened: Opened) -> None:
    """That is possible before and after a worker has routed it."""
    await opened.controls.import_deliveries([Imported(delivery("a"))])
    assert await replay(opened, NewWork(1, ONE)) == 1
    await opened.route()
    assert await replay(opened, NewWork(1, ONE)) == 1

    assert [one.source.delivery.origin for one in await opened.claim()] == [Origin.IMPORT] * 2


async def test_a_delivery_that_is_not_there_gets_no_work(opened: Opened) -> None:
    """The other deliveries get theirs."""
    await opened.items(1)

    assert await replay(opened, NewWork(99, ONE), NewWork(1, TWO), NewWork(0, TWO)) == 1
    assert await replay(opened) == 0
    assert [one.handler for one in await opened.work()] == [TWO, ONE]


async def test_many_are_made_at_one_time(opened: Opened) -> None:
    """There are more than one statement takes."""
    await opened.items(250)

    assert await replay(opened, *[NewWork(seq, TWO) for seq in range(1, 251)]) == 250
    assert [one.source.seq for one in await opened.claim(claimants=[TWO])] == list(range(1, 251))


def attempt(error: str | None = None) -> Attempt:
    """Return an attempt of a replay."""
    outcome = AttemptOutcome.SUCCEEDED if error is None else AttemptOutcome.FAILED
    return Attempt(1, Trigger.REPLAY, NOON, after_noon(SECOND), outcome, error, error and "Traceback")


async def test_what_ran_elsewhere_is_recorded(opened: Opened) -> None:
    """It keeps its attempt and its state. A dead one can be retried like any other."""
    await opened.items(2)
    good, bad = attempt(), attempt("no")

    results = [RecordedRun(1, TWO, good, DONE), RecordedRun(2, TWO, bad, DEAD), RecordedRun(99, TWO, good, DONE)]
    number = await opened.controls.begin_action(NewAction("ann", "record", "2 events", 2), now=NOON)
    await opened.controls.record(results, now=after_noon(SECOND), action=number, seen=3)
    await opened.controls.record([], now=NOON)

    recorded = await opened.reports.action(number)
    assert (recorded.seen, recorded.changed) == (3, 2)
    done, dead = await opened.seen(3), await opened.seen(4)
    assert (done.key, done.handler, done.state, done.attempts, done.last_error) == ("item-0", TWO, DONE, 1, None)
    assert (dead.key, dead.handler, dead.state, dead.attempts, dead.last_error) == ("item-1", TWO, DEAD, 1, "no")
    assert [await opened.history(3), await opened.history(4)] == [[good], [bad]]
    assert len(await opened.work()) == 4
    assert await opened.controls.retry([4], now=NOON) == 1
    (claimed,) = await opened.claim(claimants=[TWO], now=NOTHING)
    assert (claimed.id, claimed.attempt, claimed.trigger) == (4, 2, Trigger.RETRY)


async def test_many_results_are_recorded_in_their_order(opened: Opened) -> None:
    """Each has its own attempt."""
    await opened.items(1)

    await opened.controls.record([RecordedRun(1, TWO, attempt(f"{n}"), DEAD) for n in range(250)], now=NOON)

    found = await opened.work(handler="two")
    assert [one.last_error for one in found] == [f"{n}" for n in reversed(range(250))]
    assert [one.error for one in await opened.history(found[-1].id)] == ["0"]
