"""The worker runs handlers, and stops without losing anything."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.types import DeliveryState, WorkState
from receiver.errors import StoreError
from receiver.events import CrawlPage, Event, UnknownEvent
from tests.doubles import delivery, event_of, turns
from tests.worker.worker_bench import OTHER, SECOND, WorkerBench


async def test_every_handler_that_wants_a_delivery_runs_once(bench: WorkerBench) -> None:
    """It gets the typed event. Then the delivery is done."""
    seen: list[tuple[str, Event]] = []
    bench.handler("one", CrawlPage)(lambda event: seen.append(("one", event)))
    bench.handler("two", "crawl.*")(lambda event: seen.append(("two", event)))
    bench.handler("three", "agent.*")(lambda event: seen.append(("three", event)))
    async with bench.working():
        await bench.add(delivery())

        assert [(name, type(event)) for name, event in seen] == [("one", CrawlPage), ("two", CrawlPage)]
        assert await bench.state() is DeliveryState.DONE
        await bench.add(delivery())
    assert len(seen) == 2


async def test_deliveries_from_before_the_start_are_handled(bench: WorkerBench) -> None:
    """In the order they came."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    await bench.add(*[delivery(str(n)) for n in range(50)])
    async with bench.working(concurrency=2):
        await turns(1_000)

    assert bench.ran == [str(n) for n in range(50)]


async def test_no_more_calls_run_at_one_time_than_allowed(bench: WorkerBench) -> None:
    """The others wait for a free slot."""
    gates = [asyncio.Event() for _ in range(9)]
    now: list[int] = []

    @bench.handler()
    async def handler(event: Any) -> None:
        now.append(int(event.webhook_id))
        await gates[int(event.webhook_id)].wait()
        now.remove(int(event.webhook_id))

    async with bench.working(concurrency=3):
        await bench.add(*[delivery(str(n)) for n in range(9)])
        assert now == [0, 1, 2]
        gates[1].set()
        await turns()
        assert now == [0, 2, 3]
        for gate in gates:
            gate.set()
        await turns()
    assert now == []
    assert await bench.store.count_unfinished() == 0


async def test_a_batch_gathers_while_another_one_runs(bench: WorkerBench) -> None:
    """It is full when its turn comes, although its items came one by one."""
    calls: list[int] = []
    gate = asyncio.Event()

    @bench.handler(batch=4, concurrency=1)
    async def handler(events: list[Event]) -> None:
        calls.append(len(events))
        await gate.wait()

    async with bench.working():
        await bench.add(*[delivery(str(n)) for n in range(4)])
        for n in range(4, 8):
            await bench.add(delivery(str(n)))
        await bench.after(SECOND)  # it lingers no longer
        gate.set()
        await turns()
        assert calls == [4, 4]


async def test_a_worker_claims_once_for_each_result_in_a_lane(bench: WorkerBench) -> None:
    @bench.handler(ordered=True)
    async def handle(event: Event) -> None:
        bench.ran.append(event.webhook_id or "")

    keys = [f"k{number}" for number in range(20)]
    await bench.add(*[delivery(key) for key in keys])
    async with bench.working():
        await turns(2_000)
        assert bench.ran == keys
        assert bench.store.called.count("claim") <= len(keys) + 5  # the first turn, and the last before it waits


async def test_an_event_that_no_handler_wants_is_done(bench: WorkerBench, caplog: pytest.LogCaptureFixture) -> None:
    """The first one of its type is logged with a handler to paste."""
    caplog.set_level(logging.INFO)
    async with bench.working():
        await bench.add(delivery("a"), delivery("b"))

    assert await bench.state("a") is await bench.state("b") is DeliveryState.DONE
    assert [event_of(record) for record in caplog.records].count("event_unhandled") == 1


async def test_handlers_of_all_events_get_an_unreadable_delivery(bench: WorkerBench) -> None:
    """It is not lost."""
    seen: list[Event] = []
    bench.handler()(seen.append)
    async with bench.working():
        await bench.add(delivery(body=b"not json"))

    assert isinstance(seen[0], UnknownEvent)
    assert await bench.state() is DeliveryState.DONE


async def test_an_error_in_where_fails_the_attempt(bench: WorkerBench) -> None:
    """The store keeps the error, and the work is tried again."""
    bench.handler(attempts=2, where=lambda event: event.nothing)(bench.ran.append)
    async with bench.working():
        await bench.add(delivery())
        (work,) = await bench.work()

    assert "AttributeError" in str(work.last_error)
    assert bench.ran == []


async def test_running_handlers_may_finish_within_the_grace_time(bench: WorkerBench) -> None:
    """Their results are recorded, and nothing new is claimed."""

    @bench.handler(timeout=timedelta(hours=1))
    async def handler(event: Any) -> None:
        bench.ran.append(event.webhook_id)
        await bench.clock.sleep(20 * SECOND)

    async with bench.working(concurrency=1) as stop:
        await bench.add(delivery("a"), delivery("b"))
        stop.set()
        await turns()
        await bench.add(delivery("c"))
        await bench.after(20 * SECOND)

    assert bench.ran == ["a"]
    assert bench.left_behind == 0
    assert [await bench.state(key) for key in "abc"] == [
        DeliveryState.DONE,
        DeliveryState.WORKING,
        DeliveryState.NEW,
    ]
    assert await bench.outcome("b") == (WorkState.WAITING, 0, None)


async def test_unfinished_handlers_are_cancelled_and_their_leases_released(bench: WorkerBench) -> None:
    """The attempt is not counted, and another worker can claim the work at once."""

    @bench.handler(timeout=timedelta(hours=1))
    async def handler(event: Any) -> None:
        bench.ran.append(event.webhook_id)
        if len(bench.ran) == 1:
            await bench.clock.sleep(timedelta(minutes=50))

    async with bench.working():
        await bench.add(delivery())
    (work,) = await bench.work()
    assert (work.state, work.attempts, work.last_error) == (WorkState.WAITING, 0, None)

    async with bench.working(worker=OTHER):
        pass
    assert await bench.outcome() == (WorkState.DONE, 1, None)
    assert bench.left_behind == 0


async def test_an_idle_worker_stops_at_once(bench: WorkerBench) -> None:
    """No lease is released and no handler is left behind."""
    async with bench.working():
        pass

    assert bench.left_behind == 0
    assert "give_back" not in bench.store.called


async def test_a_worker_without_handlers_marks_deliveries_as_done(bench: WorkerBench) -> None:
    """Nobody wants them."""
    async with bench.working():
        await bench.add(delivery())

    assert await bench.state() is DeliveryState.DONE


async def test_a_worker_stops_without_its_store(bench: WorkerBench, caplog: pytest.LogCaptureFixture) -> None:
    """The leases end by themselves, and lost results are logged."""

    @bench.handler(timeout=timedelta(hours=1))
    async def handler(event: Any) -> None:
        if event.webhook_id == "b":
            await bench.clock.sleep(timedelta(minutes=50))

    bench.store.failing |= {"settle": StoreError("locked"), "give_back": StoreError("locked")}
    async with bench.working():
        await bench.add(delivery("a"), delivery("b"))

    words = {event_of(record) for record in caplog.records}
    assert {"settle_retrying", "results_lost", "leases_not_released"} <= words


async def test_a_handler_that_refuses_to_end_is_left_behind(bench: WorkerBench) -> None:
    """The process then ends without it."""
    released = asyncio.Event()

    @bench.handler(timeout=timedelta(hours=1))
    async def stubborn(event: Any) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                bench.ran.append("refused")

    async with bench.working():
        await bench.add(delivery())

    assert bench.ran == ["refused"]
    assert bench.left_behind == 1
    (work,) = await bench.work()
    assert work.state is WorkState.WAITING
    released.set()
    await turns()


async def test_results_of_quick_calls_are_settled_together() -> None:
    """More calls than slots end before one transaction records them all."""
    bench = WorkerBench()

    @bench.handler()
    async def quick(event: Any) -> None:
        """Return at once."""

    async with bench.working(concurrency=4):
        await bench.add(*[delivery(f"k{number}") for number in range(40)])

    assert bench.store.called.count("settle") == 1
    assert {await bench.state(f"k{number}") for number in range(40)} == {DeliveryState.DONE}
