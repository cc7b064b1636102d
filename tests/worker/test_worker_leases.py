"""The worker keeps its leases, and isolates work that may have killed a worker."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.claims import ClaimLimits, Lease
from receiver.core.rules import POISON_AFTER
from receiver.core.types import DeliveryState, HandlerName, WorkState
from receiver.core.work import NewWork
from receiver.errors import StoreError
from tests.doubles import NOON, OpenStore, appended, delivery, event_of, turns
from tests.worker.worker_bench import ME, MINUTE, OTHER, SECOND, H, WorkerBench, kill_workers, kill_workers_later


async def test_a_lease_is_renewed_while_the_handler_runs(bench: WorkerBench) -> None:
    """No other worker gets the item, however long it takes."""
    done = asyncio.Event()

    @bench.handler(timeout=timedelta(hours=9))
    async def handler(event: Any) -> None:
        bench.ran.append("x")
        await done.wait()

    async with bench.working():
        await bench.add(delivery())
        for _ in range(60):
            await bench.after(20 * SECOND)
        lease = Lease(OTHER, bench.clock.now() + MINUTE)
        assert await bench.store.claim((H,), ClaimLimits(9, 10**9), lease=lease, now=bench.clock.now()) == []
        done.set()
        await turns()
        assert await bench.state() is DeliveryState.DONE
    assert bench.ran == ["x"]


async def test_a_lost_lease_is_logged_and_its_result_is_not_recorded(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture
) -> None:
    """Another worker has claimed the item, and its attempt counts."""
    done = asyncio.Event()

    @bench.handler(timeout=timedelta(hours=1))
    async def handler(event: Any) -> None:
        await done.wait()

    bench.store.failing["renew"] = StoreError("locked")
    async with bench.working():
        await bench.add(delivery())
        bench.store.failing["claim"] = StoreError("locked")
        for _ in range(4):
            await bench.after(20 * SECOND)
        now = bench.clock.now()
        (item,) = await OpenStore.claim(
            bench.store, (H,), ClaimLimits(1, 1, suspects=True), lease=Lease(OTHER, now + MINUTE), now=now
        )
        done.set()
        await turns()
        (work,) = await bench.work()

        assert item.attempt == 2
        assert (work.state, work.attempts) == (WorkState.RUNNING, 2)
    words = [event_of(record) for record in caplog.records]
    assert "leases_not_renewed" in words
    assert "lease_lost" in words


async def test_a_blocked_worker_does_not_claim_its_own_items_again(bench: WorkerBench) -> None:
    """A handler with `time.sleep` has blocked the event loop for longer than a lease."""
    done = asyncio.Event()

    @bench.handler("long", "crawl.started", timeout=timedelta(hours=1))
    async def long(event: Any) -> None:
        bench.ran.append("long")
        await done.wait()

    @bench.handler("blocking", "crawl.page")
    async def blocking(event: Any) -> None:
        bench.ran.append("blocking")
        bench.clock.advance(3 * MINUTE)

    async with bench.working():
        await bench.add(delivery("a", kind="crawl.started"))
        await bench.add(delivery("b", kind="crawl.page"), delivery("c", kind="crawl.page"))
        done.set()
        await turns()

    assert sorted(bench.ran) == ["blocking", "blocking", "long"]
    assert {await bench.state(key) for key in "abc"} == {DeliveryState.DONE}


async def test_a_worker_that_is_stopped_before_a_claim_does_not_claim_its_own_items(
    bench: WorkerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP holds it between the renewal and the claim, for longer than a lease."""
    done, stops = asyncio.Event(), [3 * MINUTE]
    switches = bench.store.switches

    @bench.handler(timeout=timedelta(hours=1))
    async def handler(event: Any) -> None:
        bench.ran.append("x")
        await done.wait()

    async def stopped() -> Any:
        if bench.ran and stops:
            bench.clock.advance(stops.pop())
        return await switches()

    monkeypatch.setattr(bench.store, "switches", stopped)
    async with bench.working():
        await bench.add(delivery("a"))
        await bench.after(SECOND)
        await bench.add(delivery("b"))
        assert stops == []
        done.set()
        await turns()

        assert [(await bench.outcome(key))[:2] for key in ("a", "b")] == [(WorkState.DONE, 1)] * 2
    assert len(bench.ran) == 2


async def test_an_item_that_was_lost_while_it_waited_and_is_claimed_again_runs_once(bench: WorkerBench) -> None:
    """A worker was suspended, and others took its work for a moment. The older claim must not run too."""
    done = asyncio.Event()

    @bench.handler(timeout=timedelta(hours=1))
    async def handler(event: Any) -> None:
        bench.ran.append(event.webhook_id)
        await done.wait()

    async with bench.working(concurrency=1):
        await bench.add(delivery("a"), delivery("b"))
        await bench.store.expire_leases_of(ME, now=bench.clock.now())
        await appended(bench.store, delivery("c"))  # it wakes the worker
        await turns()
        done.set()
        await turns()

        assert {await bench.state(key) for key in "bc"} == {DeliveryState.DONE}
    assert bench.ran.count("b") == 1


async def test_the_work_of_a_worker_that_died_is_claimed_when_its_lease_ends(bench: WorkerBench) -> None:
    """As another attempt."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    await bench.add(delivery())
    batch = await bench.store.routing_batch(limit=1, max_bytes=1)
    new = [NewWork(1, HandlerName("h"))]
    await bench.store.route(batch, new, lease=Lease(OTHER, NOON + MINUTE), now=NOON)

    async with bench.working():
        assert bench.ran == []
        await bench.after(MINUTE)

    assert bench.ran == ["k"]
    assert await bench.outcome() == (WorkState.DONE, 2, None)


async def test_lost_attempts_do_not_count_against_the_handler(bench: WorkerBench) -> None:
    """It has two attempts, although a worker died in a third."""

    @bench.handler(attempts=2)
    def handler(event: Any) -> None:
        bench.ran.append("x")
        raise ValueError("no")

    await kill_workers(bench, 1, "k")
    async with bench.working():
        await bench.after(2 * SECOND)
        await bench.after(2 * SECOND)

    assert len(bench.ran) == 2
    (work,) = await bench.work()
    assert (work.state, work.attempts) == (WorkState.DEAD, 3)


async def test_a_suspect_runs_alone(bench: WorkerBench) -> None:
    """If the worker dies again, the cause is clear. Afterwards everything goes on as before."""
    now: list[str] = []
    most = 0

    @bench.handler()
    async def handler(event: Any) -> None:
        nonlocal most
        now.append(event.webhook_id)
        bench.ran.append(event.webhook_id)
        most = max(most, len(now))
        await bench.clock.sleep(SECOND)
        now.remove(event.webhook_id)

    await kill_workers(bench, 1, "a", "b")
    async with bench.working():
        await bench.after(SECOND)
        await bench.add(delivery("c"), delivery("d"))
        for _ in range(8):
            await bench.after(SECOND)

    assert bench.ran[:2] == ["a", "b"]
    assert sorted(bench.ran) == ["a", "b", "c", "d"]
    assert await bench.store.count_unfinished() == 0
    assert most == 2  # c and d, and nothing beside a and b


async def test_a_suspect_that_never_ends_does_not_stop_the_others(bench: WorkerBench) -> None:
    """It runs alone for the time of a lease. Then other work runs beside it."""
    hanging = asyncio.Event()

    @bench.handler("hangs", "crawl.*", timeout=3600)
    async def hangs(event: Any) -> None:
        await hanging.wait()

    bench.handler("well", "agent.*")(lambda event: bench.ran.append(event.webhook_id))
    await kill_workers(bench, 1, "hung", handler="hangs")
    async with bench.working():
        await bench.after(SECOND)
        await bench.add(delivery("other", kind="agent.started"))
        await bench.after(50 * SECOND)
        assert bench.ran == []
        for _ in range(5):
            await bench.after(30 * SECOND)
        assert bench.ran == ["other"]
        hanging.set()
        await turns()


async def test_a_worker_claims_no_more_bytes_than_allowed(bench: WorkerBench) -> None:
    """Further pages are fetched when earlier ones are done."""
    release = asyncio.Event()
    started = 0

    @bench.handler()
    async def handler(event: Any) -> None:
        nonlocal started
        started += 1
        await release.wait()

    body = b'{"type":"crawl.page","error":"%b"}' % (b"x" * 900)
    async with bench.working(max_bytes=1_000):
        await bench.add(*[delivery(f"k{number}", body=body) for number in range(4)])
        assert started == 2  # one more is taken while anything is left
        release.set()
        await turns()
        assert await bench.store.count_unfinished() == 0


async def test_work_that_killed_too_many_workers_is_dead(bench: WorkerBench) -> None:
    """It does not run again, and the error says why. Other work is handled."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    await kill_workers(bench, POISON_AFTER, "poison")
    async with bench.working():
        await bench.add(delivery("good"))
        await bench.after(2 * SECOND)
        await bench.after(2 * SECOND)

    assert bench.ran == ["good"]
    (work,) = await bench.work("poison")
    assert work.state is WorkState.DEAD
    assert f"{POISON_AFTER} workers died" in str(work.last_error)


async def test_a_worker_waits_for_a_suspect_without_busy_polling(bench: WorkerBench) -> None:
    """It checks for suspects once a second."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    async with bench.working():
        await kill_workers_later(bench)
        before = len(bench.store.called)
        await turns(2_000)
        asked = len(bench.store.called) - before
        await bench.after(SECOND)
        await bench.after(SECOND)

    assert asked < 20
    assert bench.ran == ["k"]
