"""The contract of scheduled runs: one run of each moment, none beside an unfinished one, and not more than some."""

import asyncio
from datetime import datetime, timedelta

from receiver.core.activity import PruneRule
from receiver.core.claims import DueRun
from receiver.core.deliveries import Delivery, DeliveryFilter
from receiver.core.schedules import FORGOTTEN_AFTER, KEPT_RUNS, RUN_TYPE, PlannedRun, RunOutcome, run_key
from receiver.core.types import DeliveryKey, DeliveryState, HandlerName, HandlerSwitch, Origin, Trigger
from tests.doubles import NOON, delivery
from tests.stores.opened import DAY, DONE, ONE, TWO, WAITING, Opened, after_noon, ended

MINUTE = timedelta(minutes=1)


def planned(at: timedelta, handler: HandlerName = ONE, schedule: str = "1m") -> PlannedRun:
    return PlannedRun(handler, schedule, after_noon(at))


def due(at: timedelta, *, noted: timedelta | None = None, handler: HandlerName = ONE) -> DueRun:
    """Return the run that is due so long after noon; the next one is a minute later."""
    moment = after_noon(at)
    stored = Delivery(
        run_key(handler, moment), RUN_TYPE, None, None, None, moment, (), b'{"name":"one"}', Origin.SCHEDULE
    )
    return DueRun(handler, after_noon(at if noted is None else noted), moment + MINUTE, stored)


async def follow(opened: Opened, *wanted: PlannedRun, now: timedelta = timedelta(0)) -> list[timedelta]:
    return [one - NOON for one in await opened.queue.follow_schedules(wanted, now=after_noon(now))]


async def make(opened: Opened, run: DueRun, *, by_other: bool = False) -> RunOutcome:
    queue = opened.other if by_other else opened.queue
    return await queue.make_run(run, now=run.next_at - MINUTE)


async def test_a_schedule_begins_with_its_planned_run_and_a_missed_run_is_kept(opened: Opened) -> None:
    """A later plan of the same schedule changes nothing; another schedule, or an earlier run, takes its place."""
    assert await follow(opened, planned(MINUTE), planned(DAY, TWO)) == [MINUTE, DAY]
    assert await follow(opened, planned(5 * MINUTE)) == [MINUTE]
    assert await follow(opened, planned(5 * MINUTE, schedule="5m")) == [5 * MINUTE]
    assert await follow(opened, planned(2 * MINUTE, schedule="5m")) == [2 * MINUTE]

    shown = {one.name: (one.schedule, one.next_run) for one in await opened.reports.handlers()}
    assert (await opened.reports.backlog(NOON)).next_runs == {name: moment for name, (_, moment) in shown.items()}
    assert shown == {ONE: ("5m", after_noon(2 * MINUTE)), TWO: ("1m", after_noon(DAY))}


async def test_a_schedule_that_nobody_follows_is_forgotten(opened: Opened) -> None:
    await follow(opened, planned(MINUTE), planned(MINUTE, TWO))
    later = FORGOTTEN_AFTER + 2 * MINUTE

    assert await follow(opened, planned(later), now=later) == [later]
    assert [one.name for one in await opened.reports.handlers() if one.schedule] == [ONE]


async def test_a_run_is_made_once_over_all_workers(opened: Opened) -> None:
    """It is a delivery with one work item, which any worker claims; the next run is noted."""
    await follow(opened, planned(MINUTE))

    made = await asyncio.gather(make(opened, due(MINUTE)), make(opened, due(MINUTE), by_other=True))

    assert sorted(made) == [RunOutcome.MADE, RunOutcome.TAKEN]
    assert await follow(opened, planned(9 * MINUTE)) == [2 * MINUTE]
    (item,) = await opened.claim(now=MINUTE)
    assert (item.trigger, item.source.delivery.key) == (Trigger.SCHEDULE, run_key(ONE, after_noon(MINUTE)))
    assert (item.source.delivery.origin, item.source.delivery.body) == (Origin.SCHEDULE, b'{"name":"one"}')
    await opened.settle(ended(item.id, trigger=Trigger.SCHEDULE))
    assert (await opened.detail_state(item.source.delivery.key)) is DeliveryState.NEW
    assert await opened.route() == []
    assert (await opened.detail_state(item.source.delivery.key)) is DeliveryState.DONE


async def test_a_moment_that_had_its_run_has_no_second_one(opened: Opened) -> None:
    """Also where the schedule was noted anew, because the clock was set back."""
    await follow(opened, planned(MINUTE))
    await make(opened, due(MINUTE))
    (item,) = await opened.claim(now=MINUTE)
    await opened.settle(ended(item.id, trigger=Trigger.SCHEDULE))
    await follow(opened, planned(MINUTE))

    assert await make(opened, due(MINUTE)) is RunOutcome.TAKEN
    assert len(await opened.work()) == 1


async def test_no_run_is_made_while_the_one_before_has_not_ended(opened: Opened) -> None:
    """It waits, for a pause of its handler say, or it runs, or it will be tried again."""
    await follow(opened, planned(MINUTE))
    outcomes = [await make(opened, due(MINUTE)), await make(opened, due(2 * MINUTE))]
    (item,) = await opened.claim(now=2 * MINUTE)
    outcomes.append(await make(opened, due(3 * MINUTE)))
    await opened.settle(ended(item.id, WAITING, error="no", due=DAY))
    outcomes.append(await make(opened, due(4 * MINUTE)))
    await opened.claim(now=DAY)
    await opened.settle(ended(item.id, DONE, number=2))
    outcomes.append(await make(opened, due(5 * MINUTE)))

    assert outcomes == [
        RunOutcome.MADE,
        *[RunOutcome.UNFINISHED] * 3,
        RunOutcome.MADE,
    ]


async def test_a_disabled_handler_has_no_runs(opened: Opened) -> None:
    await follow(opened, planned(MINUTE))
    await opened.controls.switch(ONE, HandlerSwitch.DISABLED)

    assert await make(opened, due(MINUTE)) is RunOutcome.DISABLED
    assert await follow(opened, planned(9 * MINUTE)) == [2 * MINUTE]
    assert await opened.listed(with_runs=True) == []


async def test_listings_have_runs_only_if_they_are_asked_for(opened: Opened) -> None:
    """Work items of runs are listed as all others; pruning takes runs too."""
    await follow(opened, planned(MINUTE))
    await opened.add(delivery("k"))
    await make(opened, due(MINUTE))
    key = run_key(ONE, after_noon(MINUTE))

    assert await opened.keys() == ["k"]
    assert await opened.keys(type="schedule.*") == [key]
    assert await opened.keys(with_runs=True) == [key, "k"]
    assert (await opened.reports.plan(DeliveryFilter())).count == 1
    assert [one.delivery.key async for one in opened.reports.iter_deliveries(DeliveryFilter())] == ["k"]
    assert [one.key for one in await opened.work()] == [key]
    assert sum((await opened.reports.arrivals(after_noon(-DAY))).values()) == 1

    await opened.route()
    (item,) = await opened.claim(now=MINUTE)
    await opened.settle(ended(item.id, trigger=Trigger.SCHEDULE))
    assert (await opened.maintenance.prunable(PruneRule(after_noon(DAY)))).count == 2


async def test_a_store_keeps_the_last_runs_of_a_handler(opened: Opened) -> None:
    """Another handler's runs stay, and so does what is not routed yet."""
    await follow(opened, planned(MINUTE), planned(MINUTE, TWO))
    await make(opened, due(MINUTE, handler=TWO))
    for number in range(1, KEPT_RUNS + 4):
        await make(opened, due(number * MINUTE))
        (item,) = await opened.claim(now=number * MINUTE)
        await opened.settle(ended(item.id, trigger=Trigger.SCHEDULE))
    assert len(await opened.listed(with_runs=True)) == KEPT_RUNS + 4
    await opened.route()

    await make(opened, due((KEPT_RUNS + 4) * MINUTE))

    left = await opened.keys(with_runs=True)
    assert len(left) == KEPT_RUNS + 2
    assert run_key(ONE, after_noon(4 * MINUTE)) in left
    assert run_key(ONE, after_noon(3 * MINUTE)) not in left
    assert run_key(TWO, after_noon(MINUTE)) in left


async def test_a_sender_cannot_take_the_key_of_a_run() -> None:
    from receiver.core.envelope import read_envelope

    key = run_key(ONE, datetime(2026, 11, 22, 9, tzinfo=NOON.tzinfo))
    body = f'{{"type":"crawl.page","webhookId":"{key}"}}'.encode()

    assert key == DeliveryKey("every:one:2026-11-22T09:00:00Z")
    assert read_envelope((), body, received_at=NOON).key.startswith("sha256:")
    assert run_key(HandlerName("x.<locals>.y"), NOON) != run_key(HandlerName("x.<locals>.z"), NOON)
