"""Scheduled runs by several workers, while handlers are paused, clocks are set, and stores are away."""

from datetime import timedelta

import pytest

from receiver import Router
from receiver.core.clock import VirtualClock
from receiver.core.types import HandlerName, HandlerSwitch, WorkerId, WorkState
from receiver.core.work import WorkFilter
from receiver.errors import StoreError
from receiver.events import Event, ScheduledRun
from receiver.worker.events import read_event
from receiver.worker.upkeep.schedules import ScheduledRuns, run_delivery
from tests.doubles import NOON, OpenStore, delivery
from tests.worker.worker_bench import MINUTE, SECOND, WorkerBench

HOUR = timedelta(hours=1)


def schedule(bench: WorkerBench, interval: str = "1 hour", **options: object) -> None:
    """Register a handler that notes when its runs were due, and when they ran."""

    @bench.router.every(interval, name="h", jitter=0, **options)  # type: ignore[arg-type]
    async def run(event: ScheduledRun) -> None:
        bench.ran.append(f"{event.due_at:%H:%M} at {bench.clock.now():%H:%M}")


async def passes(bench: WorkerBench, duration: timedelta) -> None:
    """Let time pass minute by minute, so that everything happens at its moment."""
    for _ in range(duration // MINUTE):
        await bench.after(MINUTE)


async def states(bench: WorkerBench) -> list[WorkState]:
    """Return the states of all work items, the oldest first."""
    return [one.state async for one in bench.store.work_items(WorkFilter())][::-1]


async def test_several_workers_make_each_run_once(bench: WorkerBench) -> None:
    schedule(bench)

    async with bench.working(worker=WorkerId("one")), bench.working(worker=WorkerId("two")):
        await passes(bench, 2 * HOUR)

    assert bench.ran == ["13:00 at 13:00", "14:00 at 14:00"]


async def test_a_paused_handler_has_one_waiting_run(bench: WorkerBench) -> None:
    """It runs when the handler is resumed, and then the next one comes at its time."""
    schedule(bench)

    async with bench.working():
        await bench.store.switch(HandlerName("h"), HandlerSwitch.PAUSED)
        await passes(bench, 5 * HOUR)
        assert await states(bench) == [WorkState.WAITING]
        await bench.store.switch(HandlerName("h"), HandlerSwitch.ON)
        await passes(bench, HOUR)

    assert bench.ran == ["13:00 at 17:00", "18:00 at 18:00"]


async def test_a_run_that_takes_longer_than_its_interval_has_none_beside_it(bench: WorkerBench) -> None:
    @bench.router.every("1 minute", name="h", timeout=HOUR)
    async def slow(event: ScheduledRun) -> None:
        bench.ran.append(f"{event.due_at:%H:%M}")
        await bench.clock.sleep(150 * SECOND)

    async with bench.working():
        await passes(bench, 7 * MINUTE)

    assert bench.ran == ["12:01", "12:04", "12:07"]


async def test_a_clock_that_is_set_back_brings_no_run_twice_and_stops_none(bench: WorkerBench) -> None:
    schedule(bench)

    async with bench.working():
        await passes(bench, 2 * HOUR)
        bench.clock.jump(-90 * MINUTE)  # to 12:30
        await passes(bench, 3 * HOUR)

    assert bench.ran == ["13:00 at 13:00", "14:00 at 14:00", "15:00 at 15:00"]


async def test_a_due_run_is_made_though_another_version_has_changed_the_schedule() -> None:
    """While versions change, workers of both follow the same handler, each by its own schedule."""
    store, clock = OpenStore(), VirtualClock(NOON)
    versions = []
    for interval in ("30 minutes", "1 hour"):
        router = Router()

        @router.every(interval, name="h")
        def run(event: ScheduledRun) -> None: ...

        versions.append(ScheduledRuns(store, router, clock, longest_wait=MINUTE))
    new, old = versions
    clock.advance(HOUR - MINUTE)
    for one in (new, old):
        await one.make_due()
    clock.advance(MINUTE)
    await new.make_due()

    assert [one.delivery.key for one in store.state.deliveries.values()] == ["every:h:2026-08-04T13:00:00Z"]


@pytest.mark.parametrize("error", [StoreError("away"), LookupError("a bug")])
async def test_a_run_that_cannot_be_stored_is_delayed_and_stops_no_other_work(
    bench: WorkerBench, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    schedule(bench)

    @bench.handler("other")
    async def other(event: Event) -> None:
        bench.ran.append("other")

    async with bench.working():
        bench.store.failing["make_run"] = error
        await passes(bench, HOUR)
        await bench.add(delivery())
        assert bench.ran == ["other"]
        del bench.store.failing["make_run"]
        await passes(bench, MINUTE)

    assert bench.ran == ["other", "13:00 at 13:01"]
    assert "scheduled_runs_delayed" in caplog.text


def test_the_event_of_a_run_is_read_from_what_is_stored() -> None:
    """Also in another process, which gets the stored delivery."""
    from receiver.core.deliveries import StoredDelivery

    stored = StoredDelivery(1, 0, run_delivery(HandlerName("h"), NOON, NOON + MINUTE))

    assert read_event(stored) == ScheduledRun(name="h", due_at=NOON, success=True)
