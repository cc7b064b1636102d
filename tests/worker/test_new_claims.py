"""Which new work is claimed as it is made, and which of it the store notes as started from the beginning."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from receiver import Event, Router
from receiver.core.clock import VirtualClock
from receiver.core.types import HandlerName
from receiver.events import CrawlPage
from receiver.routing.policies import RunsIn
from receiver.worker.claiming import NewClaims
from receiver.worker.work_in_hand import ReadyQueues
from tests.doubles import NOON, delivery
from tests.worker.worker_bench import ME, WorkerBench

COSTLY = b'{"type":"crawl.page","id":"costly","data":[%s]}' % b",".join([b"{}"] * 1_000)
PLAIN = b'{"type":"crawl.page","id":"plain"}'
SLOTS = {RunsIn.LOOP: 8, RunsIn.THREAD: 8, RunsIn.PROCESS: 2}


async def gather(events: list[Event]) -> None:
    """Handle many events."""


async def single(event: Event) -> None:
    """Handle an event."""


def plain(events: list[Event]) -> None:
    """Handle many events in a thread."""


def plain_single(event: Event) -> None:
    """Handle an event in a thread."""


def starting(
    router: Router, *coming: str, concurrency: int = 8, threads: int = 8, refused: bool = False
) -> list[bool]:
    """Return for new items of these handlers whether each starts at once."""
    slots = SLOTS | {RunsIn.THREAD: threads}
    ready = ReadyQueues(
        router, slots, VirtualClock(NOON), concurrency=concurrency, most_claimed=256, read=list, wake=lambda: None
    )
    claims = NewClaims(ready, map(HandlerName, coming))
    return [claims.next(router[HandlerName(name)], refused=refused)[1] for name in coming]


@pytest.fixture
def router() -> Router:
    """Handlers with batches of two and of three, and one without."""
    router = Router()
    router.add(gather, "*", name="twos", batch=2)
    router.add(gather, "*", name="threes", batch=3)
    router.add(single, "*", name="single")
    return router


@pytest.mark.parametrize(
    ("coming", "starts"),
    [
        ("twos", "-"),
        ("twos twos", "++"),
        ("twos twos twos", "++-"),
        ("twos threes twos threes single threes threes", "++++++-"),
        ("single " * 9, "++++++++-"),
    ],
)
def test_the_items_of_full_batches_start_at_once(router: Router, coming: str, starts: str) -> None:
    """Others wait for the rest of their batch."""
    assert starting(router, *coming.split()) == [mark == "+" for mark in starts]


def test_each_batch_takes_one_slot_of_all(router: Router) -> None:
    """What finds none has not started, though it is claimed."""
    coming = ("twos", "twos", "threes", "threes", "threes", "single")

    assert starting(router, *coming, concurrency=1) == [True, True, False, False, False, False]
    assert starting(router, *coming, concurrency=2) == [True] * 5 + [False]


def test_batches_share_the_slots_of_their_kind() -> None:
    """What finds no thread has not started, though slots of other kinds are free."""
    router = Router()
    for name, options in (("twos", {"batch": 2}), ("others", {"batch": 2}), ("single", {})):
        router.add(plain_single if name == "single" else plain, "*", name=name, **options)  # type: ignore[arg-type]

    coming = ("twos", "twos", "others", "others", "single")
    assert starting(router, *coming, threads=1) == [True, True, False, False, False]
    assert starting(router, *coming, threads=2) == [True] * 4 + [False]
    assert starting(router, *reversed(coming), threads=2) == [True] * 3 + [False] * 2


def test_what_will_not_run_completes_no_batch(router: Router) -> None:
    """A refused item is claimed to be failed."""
    assert starting(router, "twos", "twos", refused=True) == [False, False]


def test_batches_with_a_rate_are_not_claimed_yet() -> None:
    """The rate counts over all workers, so the store has to be asked."""
    router = Router()
    router.add(gather, "*", name="twos", batch=2, rate="1/s")

    assert starting(router, "twos", "twos") == [False, False]


async def test_a_batch_that_starts_at_once_is_noted_with_the_items_it_completes(bench: WorkerBench) -> None:
    """The earlier items of the batch are noted when it starts, and what waits is not noted."""
    gate = asyncio.Event()

    @bench.handler(batch=3, linger=timedelta(minutes=5))
    async def hold(events: list[Event]) -> None:
        await gate.wait()

    noted: list[int] = []
    mark_started = bench.store.mark_started

    async def note(work_ids: Any, worker: Any) -> None:
        noted.extend(work_ids)
        await mark_started(work_ids, worker)

    bench.store.mark_started = note  # type: ignore[method-assign]
    async with bench.working():
        await bench.add(delivery("1"))
        await bench.add(*[delivery(f"{n}") for n in range(2, 8)])

        assert noted == [1]
        assert [row.started for row in bench.store.state.work.values()] == [True] * 6 + [False]
        gate.set()


async def test_what_waits_for_a_batch_that_is_not_full_after_all_is_not_blamed(bench: WorkerBench) -> None:
    """An event that takes much memory runs alone, so the other one waits. It has nothing to do with a crash."""
    gate = asyncio.Event()

    @bench.handler("h", CrawlPage, batch=2, linger=timedelta(minutes=5))
    async def hold(events: list[CrawlPage]) -> None:
        await gate.wait()

    async with bench.working():
        await bench.add(delivery("1", body=COSTLY), delivery("2", body=PLAIN))
        await bench.after(timedelta(seconds=1))
        assert [row.started for row in bench.store.state.work.values()] == [True, False]
        gate.set()


async def test_what_starts_soon_after_it_waited_stays_noted(bench: WorkerBench) -> None:
    """Else an item that kills its process at once would not be known to have run."""
    gate = asyncio.Event()

    @bench.handler("h", CrawlPage, batch=2, linger=timedelta(milliseconds=100))
    async def hold(events: list[CrawlPage]) -> None:
        bench.ran += [one.job_id or "" for one in events]
        await gate.wait()

    async with bench.working():
        await bench.add(delivery("1", body=COSTLY), delivery("2", body=PLAIN))
        await bench.after(timedelta(seconds=1))
        assert "plain" in bench.ran
        assert [row.started for row in bench.store.state.work.values()] == [True, True]
        gate.set()


async def test_a_claim_notes_what_starts_beside_handlers_with_batches(bench: WorkerBench) -> None:
    """Else an item that kills its process at once would not be known to have run."""
    gate = asyncio.Event()
    bench.handler("batch", batch=3, linger=timedelta(minutes=5))(gather)

    @bench.handler("single", "*", pauses=[60])
    async def fail_then_hold(event: Event) -> None:
        bench.ran.append("single")
        if len(bench.ran) == 1:
            raise ValueError("once")
        await gate.wait()

    async with bench.working():
        await bench.add(delivery("1"))
        bench.store.called.clear()
        await bench.after(timedelta(minutes=1))

        single = next(one for one in bench.store.state.work.values() if one.handler == "single")
        assert len(bench.ran) == 2
        assert single.worker == ME
        assert single.started
        gate.set()
