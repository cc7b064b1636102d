"""The memory that the events of a worker share, bodies that take much of it, and what failed calls leave in it."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.types import DeliveryKey, WorkState
from receiver.events import CrawlPage, Event
from receiver.worker.calls.runner import MAX_FAILED_BYTES, Runner
from receiver.worker.events import MemoryBudget, claim_on_memory
from tests.doubles import COSTLY, NOON, Inline, body_of, delivery, eventually, soon, turns
from tests.worker.running import batch, claim
from tests.worker.worker_bench import MINUTE, WorkerBench

LARGE = body_of(data=[{}] * 2_000)
"""Its event takes a few MiB."""


async def test_one_always_fits() -> None:
    """Even if it takes more than there is."""
    budget = MemoryBudget(10)

    async with budget.taken(11):
        assert not budget.take_now(1)

    assert budget.take_now(1)


async def test_the_others_wait_in_order() -> None:
    """A small one does not overtake a large one, which would wait for ever."""
    budget, order = MemoryBudget(10), []

    async def use(cost: int) -> None:
        async with budget.taken(cost):
            order.append(cost)

    async with asyncio.TaskGroup() as group, budget.taken(5):
        for cost in (6, 4, 1):
            group.create_task(use(cost))
        await turns()
        assert order == []
        assert not budget.take_now(1)
        assert budget.take_now(0)

    assert order == [6, 4, 1]


@pytest.mark.parametrize("granted", [False, True])
async def test_one_that_is_cancelled_keeps_nothing(granted: bool) -> None:
    """Neither while it waits, nor when memory has just been given to it."""
    budget = MemoryBudget(10)

    async def use(cost: int) -> None:
        async with budget.taken(cost):
            await asyncio.Event().wait()

    assert budget.take_now(5)
    first, second = asyncio.create_task(use(10)), asyncio.create_task(use(5))
    await turns()
    if granted:
        budget.give_back(5)
    first.cancel()
    await asyncio.wait([first])
    if not granted:
        budget.give_back(5)
    await turns()

    assert budget.take_now(5)
    assert not budget.take_now(1)
    second.cancel()
    await asyncio.wait([second])
    budget.give_back(5)
    assert budget.take_now(10)


async def test_a_body_of_too_many_values_is_dead_and_the_others_are_handled(bench: WorkerBench) -> None:
    """The work item says why, and the body stays."""

    @bench.handler("h", CrawlPage)
    async def handle(event: Any) -> None:
        bench.ran.append(event.webhook_id or "large")

    async with bench.working():
        await bench.add(
            delivery("a"), delivery("costly", body=COSTLY), delivery("b"), delivery("large", body=LARGE)
        )
        await eventually(lambda: len(bench.ran) == 3)

    assert sorted(bench.ran) == ["a", "b", "large"]
    state, attempts, error = await bench.outcome("costly")
    assert (state, attempts) == (WorkState.DEAD, 1)
    assert error is not None
    assert "more than 256 MiB" in error
    assert (await bench.store.detail(DeliveryKey("costly"))).body == COSTLY


async def test_large_bodies_run_one_after_the_other_and_small_ones_beside_them(bench: WorkerBench) -> None:
    """Attempts and routing share the memory. A batch does not hold several large ones."""
    running: list[int] = []
    most = 0

    @bench.handler("h", CrawlPage, batch=10)
    async def handle(events: list[CrawlPage]) -> None:
        nonlocal most
        running.append(len(events))
        most = max(most, len(running))
        await turns(10)
        running.pop()
        bench.ran.extend(str(len(event.data)) for event in events)

    memory = MemoryBudget(claim_on_memory(LARGE) + 1)
    async with bench.working(memory=memory):
        await bench.add(*[delivery(f"k{number}", body=LARGE) for number in range(5)])
        await eventually(lambda: len(bench.ran) == 5)

    assert most == 1
    assert bench.ran == ["2000"] * 5
    assert memory.take_now(claim_on_memory(LARGE))


def always(event: CrawlPage) -> bool:
    """Want each event."""
    return True


@pytest.mark.parametrize("where", [None, always])
async def test_routing_waits_for_memory_only_if_it_reads_the_event(bench: WorkerBench, where: Any) -> None:
    """A small delivery behind a large one is handled at once where nobody asks what the large one is."""

    @bench.handler("h", CrawlPage, where=where)
    async def handle(event: Any) -> None:
        bench.ran.append(event.webhook_id or "large")

    memory = MemoryBudget(claim_on_memory(LARGE))
    assert memory.take_now(1)
    async with bench.working(memory=memory):
        await bench.add(delivery("large", body=LARGE), delivery("small"))
        assert bench.ran == ([] if where else ["small"])
        assert len(await bench.work("large")) == (0 if where else 1)
        memory.give_back(1)
        await bench.after(MINUTE)
        await eventually(lambda: len(bench.ran) == 2)

    assert sorted(bench.ran) == ["large", "small"]


class Odd(Exception):
    """An error that its handler keeps."""


@pytest.fixture
def no_search() -> Iterator[None]:
    """Python itself searches for no garbage."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("count", [1, 2], ids=["event", "batch"])
async def test_errors_in_cycles_do_not_keep_many_bytes_of_bodies(count: int) -> None:
    """They would until Python has made many objects, and each keeps the event and its body."""
    errors: list[weakref.ref[Odd]] = []

    async def handler(event: Any) -> None:
        try:
            raise Odd
        except Odd as exc:
            errors.append(weakref.ref(exc))
            kept = exc
            raise kept from None

    async def batch_handler(events: list[Event]) -> None:
        await handler(events)

    body = body_of(id="j", data=[{"markdown": "x" * (MAX_FAILED_BYTES // 8)}])
    runner = Runner(VirtualClock(NOON), Inline())
    for _ in range(17):
        claimed = [claim(handler, body=body)] if count == 1 else batch(batch_handler, bodies=[body] * count)
        await soon(runner.run_batch(claimed))

    bytes_kept = sum(count * len(body) for error in errors if error() is not None)
    assert 0 < bytes_kept < MAX_FAILED_BYTES + count * len(body)
