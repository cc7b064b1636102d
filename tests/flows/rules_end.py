"""The end of every run: when all workers are well and time passes, no work is left."""

from datetime import datetime, timedelta

from receiver.core.claims import ClaimLimits
from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import AttemptOutcome, DeliveryState, HandlerSwitch, WorkState
from receiver.core.work import Backlog
from receiver.core.work_states import ENDED
from tests.flows.rules_items import SLACK
from tests.flows.rules_world import MUCH, Ending, Following, Worker, World


async def drive_to_the_end(world: World) -> None:
    """Let all workers work and time pass until nothing is left to do; assert that all items have ended."""
    for worker in world.workers:
        worker.frozen = False
        await world.settle(worker, [(one, Ending.SUCCESS) for one in worker.believed])
    for name in [name for name, to in world.rules.switches.items() if to is HandlerSwitch.PAUSED]:
        await world.switch(name, HandlerSwitch.ON)
    await _until_idle(world)
    while standing := [one.id for one in world.rules.items.values() if one.stands]:
        await world.bury(standing)
        await _until_idle(world)
    await _compare_all(world)


async def _until_idle(world: World) -> None:
    step = SLACK
    for turn in range(200 + 4 * len(world.rules.arrived) * len(world.rules.policies)):
        ended = _ended(world)
        due = await _work(world, world.workers[turn % len(world.workers)], turn)
        if due is None:
            return
        # An item may wait long for a limit or a page, until the lease of a dead worker ends.
        step = SLACK if ended < _ended(world) else min(step * 2, timedelta(days=1))
        world.pass_time(max(due - world.now, step))
    raise AssertionError("there is always something left to do")


def _ended(world: World) -> int:
    return sum(len(one.history) for one in world.rules.items.values())


async def _work(world: World, worker: Worker, turn: int) -> datetime | None:
    """Do one turn of a worker; return when there is more to do, None for never."""
    claimants = world.claimants(turn, followers=turn % 2 == 0)
    await world.read(worker, 100)
    await world.route(worker, [(True, True)])
    await world.look(worker)
    if world.rules.suspects_due(claimants, world.now):
        await world.claim(worker, claimants, ClaimLimits(100, MUCH, 100, suspects=True))
    await world.claim(worker, claimants, ClaimLimits(100, MUCH, 100))
    while worker.believed:
        following = [Following(turn % 4, goes_on=True)]
        await world.settle(worker, [(one, Ending.SUCCESS) for one in worker.believed], following)
        await world.compare()
    return await world.ask(worker, claimants)


async def _compare_all(world: World) -> None:
    rules, reports = world.rules, world.reports
    await world.compare()
    assert rules.routed == len(rules.arrived)
    for item in rules.items.values():
        assert item.state in ENDED, f"{item} is forgotten"
        await world.compare_history(item)
    summaries = {one.key: one async for one in reports.deliveries(DeliveryFilter())}
    assert list(summaries) == [one.key for one in reversed(rules.arrived)]
    for source in rules.arrived:
        work = rules.items_of(source)
        assert sorted(one.policy.name for one in work) == sorted(one.name for one in rules.wanting(source))
        dead = any(one.state is WorkState.DEAD for one in work)
        assert summaries[source.key].state is (DeliveryState.DEAD if dead else DeliveryState.DONE)
    assert await reports.count_unfinished() == 0
    ended = [attempt.outcome for item in rules.items.values() for attempt in item.history]
    assert await reports.backlog(world.now) == Backlog(0, 0, 0, None, (), ended.count(AttemptOutcome.LOST))
