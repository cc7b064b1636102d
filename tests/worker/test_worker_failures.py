"""The worker when handlers fail, and when the store fails."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.types import DeliveryState, WorkState
from receiver.errors import GiveUp, Retry, StoreError
from tests.doubles import NOON, delivery, event_of
from tests.worker.worker_bench import MINUTE, SECOND, WorkerBench


async def test_a_failing_handler_runs_again_on_schedule_until_it_is_dead(bench: WorkerBench) -> None:
    """Eight attempts with the documented pauses, and not a microsecond early."""
    moments: list[timedelta] = []

    @bench.handler()
    def handler(event: Any) -> None:
        moments.append(bench.clock.now() - NOON)
        raise ValueError("no")

    tick = timedelta(microseconds=1)
    expected = [timedelta(0)]
    async with bench.working():
        await bench.add(delivery())
        for pause in (1, 10, 60, 300, 900, 3600, 21600):
            await bench.after(SECOND * pause - tick)
            assert moments == expected
            await bench.after(tick)
            expected.append(expected[-1] + SECOND * pause)
            assert moments == expected
        await bench.after(timedelta(days=30))

    assert moments == expected
    assert await bench.outcome() == (WorkState.DEAD, 8, "ValueError: no")
    assert await bench.state() is DeliveryState.DEAD


async def test_a_failing_handler_does_not_affect_the_others(bench: WorkerBench) -> None:
    """They neither miss the event nor get it twice."""

    @bench.handler("bad", attempts=3)
    async def bad(event: Any) -> None:
        bench.ran.append("bad")
        raise ValueError("no")

    bench.handler("good")(lambda event: bench.ran.append("good"))
    async with bench.working():
        await bench.add(delivery())
        for _ in range(5):
            await bench.after(MINUTE)

    assert sorted(bench.ran) == ["bad", "bad", "bad", "good"]
    bad_work, good_work = await bench.work()
    assert (bad_work.state, good_work.state) == (WorkState.DEAD, WorkState.DONE)


async def test_a_handler_that_succeeds_in_the_end_is_done(bench: WorkerBench) -> None:
    """And does not run again."""

    @bench.handler()
    def handler(event: Any) -> None:
        bench.ran.append("x")
        if len(bench.ran) < 3:
            raise ValueError("not yet")

    async with bench.working():
        await bench.add(delivery())
        await bench.after(SECOND)
        await bench.after(10 * SECOND)
        await bench.after(timedelta(days=1))

    assert await bench.outcome() == (WorkState.DONE, 3, None)


async def test_retry_sets_its_own_pause(bench: WorkerBench) -> None:
    """It replaces that of the schedule."""

    @bench.handler()
    def handler(event: Any) -> None:
        bench.ran.append("x")
        raise Retry("busy", after=MINUTE)

    async with bench.working():
        await bench.add(delivery())
        await bench.after(59 * SECOND)
        assert len(bench.ran) == 1
        await bench.after(SECOND)
        assert len(bench.ran) == 2


async def test_giving_up_is_final(bench: WorkerBench) -> None:
    """The work is dead at once, with the reason."""

    @bench.handler()
    def handler(event: Any) -> None:
        raise GiveUp("no such customer")

    async with bench.working():
        await bench.add(delivery())

    (work,) = await bench.work()
    assert (work.state, work.attempts, work.last_error) == (WorkState.DEAD, 1, "GiveUp: no such customer")


async def test_a_timeout_is_a_failed_attempt(bench: WorkerBench) -> None:
    """It is tried again."""

    @bench.handler(timeout=5, attempts=2)
    async def handler(event: Any) -> None:
        bench.ran.append("x")
        await bench.clock.sleep(timedelta(hours=1))

    async with bench.working():
        await bench.add(delivery())
        await bench.after(5 * SECOND)
        (work,) = await bench.work()
        assert (work.state, work.last_error) == (WorkState.WAITING, "took longer than 5 s and was cancelled")
        await bench.after(SECOND)
        await bench.after(5 * SECOND)

    assert len(bench.ran) == 2
    assert await bench.state() is DeliveryState.DEAD


def stop_iteration(event: Any) -> None:
    raise StopIteration


async def cancels_itself(event: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def retry_for_ever(event: Any) -> None:
    raise Retry("never", after=timedelta.max)


def exits(event: Any) -> None:
    raise SystemExit(1)


class Limited(Retry):
    """A handler author's own, which forgets the base class."""

    def __init__(self) -> None:
        pass


def raises_a_broken_retry(event: Any) -> None:
    raise Limited


@pytest.mark.parametrize("function", [stop_iteration, cancels_itself, retry_for_ever, exits, raises_a_broken_retry])
async def test_every_attempt_has_an_end(bench: WorkerBench, function: Callable[[Any], Any]) -> None:
    """Otherwise its item would be leased for ever."""
    bench.handler("odd", attempts=2)(function)
    async with bench.working():
        await bench.add(delivery())
        (work,) = await bench.work()

        assert work.state is not WorkState.RUNNING
        assert work.last_error is not None


async def test_results_are_kept_while_the_store_is_away(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture
) -> None:
    """They are recorded when it is back, and the handlers do not run again."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    bench.store.failing["settle"] = StoreError("locked")
    async with bench.working():
        await bench.add(delivery("a"))
        for _ in range(3):
            await bench.add(delivery(f"b{_}"))
            await bench.after(SECOND)
        assert (await bench.work("a"))[0].state is WorkState.RUNNING
        bench.store.failing.clear()
        await bench.after(SECOND)
        await bench.after(SECOND)

        assert {await bench.state(key) for key in ("a", "b0", "b1", "b2")} == {DeliveryState.DONE}
    assert bench.ran == ["a", "b0", "b1", "b2"]
    assert "settle_retrying" in [event_of(record) for record in caplog.records]


async def test_an_unexpected_error_of_the_store_is_logged(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture
) -> None:
    """The result that cannot be recorded frees its slot."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    bench.store.failing["settle"] = RuntimeError("a bug in the store")
    caplog.set_level(logging.WARNING)
    async with bench.working():
        await bench.add(delivery())

        assert [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_unreadable_store_is_tried_again(bench: WorkerBench, caplog: pytest.LogCaptureFixture) -> None:
    """Once a second. Nothing is lost."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    bench.store.failing["claim"] = StoreError("locked")
    async with bench.working():
        await bench.add(delivery())
        for _ in range(3):
            await bench.after(SECOND)
        assert bench.store.called.count("claim") <= 5
        assert bench.ran == []
        bench.store.failing.clear()
        await bench.after(SECOND)
        assert bench.ran == ["k"]
    assert "store_unavailable" in [event_of(record) for record in caplog.records]


@pytest.mark.parametrize(("on_dead", "stops"), [("hold", True), ("release", False)])
async def test_the_log_says_whether_a_dead_item_stops_its_lane(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture, on_dead: str, *, stops: bool
) -> None:
    """In a lane that goes on, nobody has to do anything for the others."""

    @bench.handler(ordered=True, on_dead=on_dead, attempts=1)
    async def fail(event: Any) -> None:
        raise ValueError("no")

    async with bench.working():
        await bench.add(delivery("1"))

    [dead] = [record for record in caplog.records if event_of(record) == "work_dead"]
    assert hasattr(dead, "stops_lane") is stops
