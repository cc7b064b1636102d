"""The worker's loop over a MemoryStore and a clock that is moved by hand."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, Settlement, WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Delivery
from receiver.core.rules import POISON_AFTER
from receiver.core.types import DeliveryKey, DeliveryState, HandlerName, WorkerId, WorkState
from receiver.core.work import NewWork, WorkSummary
from receiver.errors import GiveUp, Retry, StoreError
from receiver.events import CrawlPage, Event, UnknownEvent
from receiver.routing import Router
from receiver.stores.memory import MemoryStore
from receiver.worker.background import first_of
from receiver.worker.runner import Runner
from receiver.worker.worker import MAX_BYTES, Worker, WorkerLimits
from tests.doubles import NOON, Inline, delivery, pass_time, soon, turns

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
ME, OTHER = WorkerId("me"), WorkerId("other")
H = HandlerClaim(HandlerName("h"))


class Faulty(MemoryStore):
    """A store that fails where and as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[str, Exception] = {}
        self.called: list[str] = []

    def _fail(self, name: str) -> None:
        self.called.append(name)
        if name in self.failing:
            raise self.failing[name]

    async def claim(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, **more: Any
    ) -> Sequence[WorkItem]:
        """Claim, unless it fails."""
        self._fail("claim")
        return await super().claim(claimants, wanted, **more)

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Renew, unless it fails."""
        self._fail("renew")
        await super().renew(work_ids, lease)

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Settle, unless it fails."""
        self._fail("settle")
        return await super().settle(settlements)

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, **more: Any) -> None:
        """Give back, unless it fails."""
        self._fail("give_back")
        await super().release_leases(work_ids, worker, **more)


class Bench:
    """A store, a clock and a router, and as many workers on them as a test wants."""

    def __init__(self) -> None:
        self.store = Faulty()
        self.clock = VirtualClock(NOON)
        self.router = Router()
        self.ran: list[str] = []
        self.left_behind = -1

    def handler(self, name: str = "h", *wanted: Any, **options: Any) -> Callable[[Any], Any]:
        """Register the decorated function under a name, without jitter."""
        return self.router.on(*(wanted or ("*",)), name=name, jitter=0, **options)

    async def add(self, *deliveries: Delivery) -> None:
        """Store deliveries and let everything happen that follows from it."""
        for one in deliveries:
            await self.store.append(one)
        await turns()

    async def after(self, duration: timedelta) -> None:
        """Let this much time pass."""
        await pass_time(self.clock, duration)

    @asynccontextmanager
    async def working(
        self,
        *,
        concurrency: int = 4,
        worker: WorkerId = ME,
        grace: timedelta = 25 * SECOND,
        max_bytes: int = MAX_BYTES,
    ) -> AsyncIterator[asyncio.Event]:
        """Run a worker for the length of the block, then stop it."""
        dispatcher = Worker(
            self.store,
            self.router,
            self.clock,
            Runner(self.clock, Inline()),
            worker=worker,
            limits=WorkerLimits(
                concurrency=concurrency, threads=concurrency, processes=1, lease=MINUTE, max_bytes=max_bytes
            ),
            rng=random.Random(1),
        )
        stop = asyncio.Event()
        running = asyncio.create_task(dispatcher.run(stop, grace=grace))
        await turns()
        try:
            yield stop
        finally:
            stop.set()
            await turns()
            self.clock.advance(grace)
            await turns()
            self.clock.advance(2 * SECOND)
            self.left_behind = await soon(running)

    async def work(self, key: str = "k") -> tuple[WorkSummary, ...]:
        """Return the work items of a delivery."""
        return (await self.store.detail(DeliveryKey(key))).work

    async def outcome(self, key: str = "k") -> tuple[WorkState, int, str | None]:
        """Return state, attempts and last error of the only work item of a delivery."""
        (work,) = await self.work(key)
        return work.state, work.attempts, work.last_error

    async def state(self, key: str = "k") -> DeliveryState:
        """Return how far a delivery has come."""
        return (await self.store.detail(DeliveryKey(key))).summary.state


@pytest.fixture
def bench() -> Bench:
    """An empty one."""
    return Bench()


# --- running


async def test_every_handler_that_wants_a_delivery_runs_once(bench: Bench) -> None:
    """With its typed event; then the delivery is done."""
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


async def test_deliveries_from_before_the_start_are_handled(bench: Bench) -> None:
    """In the order they came."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    await bench.add(*[delivery(str(n)) for n in range(50)])
    async with bench.working(concurrency=2):
        await turns(1_000)

    assert bench.ran == [str(n) for n in range(50)]


async def test_no_more_run_at_one_time_than_allowed(bench: Bench) -> None:
    """The others wait, and go on as soon as there is room."""
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


async def test_an_event_that_no_handler_wants_is_done(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Its first sight is logged with a stub."""
    caplog.set_level(logging.INFO)
    async with bench.working():
        await bench.add(delivery("a"), delivery("b"))

    assert await bench.state("a") is await bench.state("b") is DeliveryState.DONE
    assert [record.getMessage() for record in caplog.records].count("event_unhandled") == 1


async def test_an_unreadable_delivery_is_handed_to_who_wants_everything(bench: Bench) -> None:
    """P7: never lost."""
    seen: list[Event] = []
    bench.handler()(seen.append)
    async with bench.working():
        await bench.add(delivery(body=b"not json"))

    assert isinstance(seen[0], UnknownEvent)
    assert await bench.state() is DeliveryState.DONE


async def test_where_that_raises_fails_its_attempt(bench: Bench) -> None:
    """Visible in the store, and tried again."""
    bench.handler(attempts=2, where=lambda event: event.nothing)(bench.ran.append)
    async with bench.working():
        await bench.add(delivery())
        (work,) = await bench.work()

    assert "AttributeError" in str(work.last_error)
    assert bench.ran == []


# --- failing


async def test_a_failing_handler_runs_again_on_schedule_until_it_is_dead(bench: Bench) -> None:
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


async def test_a_failing_handler_leaves_the_others_alone(bench: Bench) -> None:
    """P8: neither hidden nor repeated."""

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


async def test_a_handler_that_succeeds_in_the_end_is_done(bench: Bench) -> None:
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


async def test_retry_sets_its_own_pause(bench: Bench) -> None:
    """Instead of the schedule's."""

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


async def test_giving_up_is_final(bench: Bench) -> None:
    """Dead at once, with the reason."""

    @bench.handler()
    def handler(event: Any) -> None:
        raise GiveUp("no such customer")

    async with bench.working():
        await bench.add(delivery())

    (work,) = await bench.work()
    assert (work.state, work.attempts, work.last_error) == (WorkState.DEAD, 1, "GiveUp: no such customer")


async def test_a_timeout_is_a_failed_attempt(bench: Bench) -> None:
    """Tried again like any other."""

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
async def test_every_attempt_has_an_end(bench: Bench, function: Callable[[Any], Any]) -> None:
    """Whatever the handler does: else its item would be held, and its lease renewed, for ever."""
    bench.handler("odd", attempts=2)(function)
    async with bench.working():
        await bench.add(delivery())
        (work,) = await bench.work()

        assert work.state is not WorkState.RUNNING
        assert work.last_error is not None


# --- the store fails


async def test_results_are_kept_while_the_store_is_away(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Running again is the alternative; they are recorded when it is back."""
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
    assert "settle_retrying" in [record.getMessage() for record in caplog.records]


async def test_an_error_that_no_store_should_raise_is_not_silent(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """A result that cannot be recorded is logged, and does not take a place of the worker's for ever."""
    bench.handler()(lambda event: bench.ran.append(event.webhook_id))
    bench.store.failing["settle"] = RuntimeError("a bug in the store")
    caplog.set_level(logging.WARNING)
    async with bench.working():
        await bench.add(delivery())

        assert [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_store_that_cannot_be_read_is_asked_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Once a second; nothing is lost meanwhile."""
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
    assert "store_unavailable" in [record.getMessage() for record in caplog.records]


# --- leases


async def test_a_lease_is_renewed_while_the_handler_runs(bench: Bench) -> None:
    """Nobody else gets the item, however long it takes."""
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


async def test_a_lost_lease_is_told_and_its_result_not_recorded(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Another worker has claimed the item; its attempt is the one that counts."""
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
        (item,) = await MemoryStore.claim(
            bench.store, (H,), ClaimLimits(1, 1, suspects=True), lease=Lease(OTHER, now + MINUTE), now=now
        )
        done.set()
        await turns()
        (work,) = await bench.work()

        assert item.attempt == 2
        assert (work.state, work.attempts) == (WorkState.RUNNING, 2)
    words = [record.getMessage() for record in caplog.records]
    assert "leases_not_renewed" in words
    assert "lease_lost" in words


async def test_a_blocked_worker_does_not_claim_its_own_items_again(bench: Bench) -> None:
    """A handler with time.sleep in it held the loop for longer than a lease."""
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


async def test_the_work_of_a_worker_that_died_is_claimed_when_its_lease_ends(bench: Bench) -> None:
    """As another attempt, without anyone asking."""
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


async def kill_workers(bench: Bench, times: int, *keys: str, handler: str = "h") -> None:
    """Let as many workers die over deliveries; their leases have ended afterwards."""
    name = HandlerName(handler)
    await bench.add(*[delivery(key) for key in keys])
    batch = await bench.store.routing_batch(limit=99, max_bytes=10**9)
    work = [NewWork(one.seq, name, starts=True) for one in batch.deliveries]
    await bench.store.route(batch, work, lease=Lease(OTHER, NOON), now=NOON)
    suspects = ClaimLimits(99, 10**9, starting=99, suspects=True)
    for _ in range(times - 1):
        await bench.store.claim((HandlerClaim(name),), suspects, lease=Lease(OTHER, NOON), now=NOON)


async def test_lost_attempts_are_not_held_against_the_handler(bench: Bench) -> None:
    """Two attempts are two, although a worker died in a third."""

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


async def test_what_may_have_killed_its_worker_runs_alone(bench: Bench) -> None:
    """The next death names the culprit; afterwards all goes on as before."""
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


async def test_a_suspect_that_never_ends_does_not_stop_the_others(bench: Bench) -> None:
    """It runs alone for as long as a lease; then the worker goes on beside it."""
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


async def test_a_worker_holds_no_more_bytes_than_it_may(bench: Bench) -> None:
    """Large pages are fetched as earlier ones are done with, whatever their number."""
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


async def test_what_killed_too_many_workers_is_dead(bench: Bench) -> None:
    """Without one more run, and with words that say why; others are handled."""
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


async def test_a_suspect_that_becomes_due_is_waited_for_without_spinning(bench: Bench) -> None:
    """The worker looks for suspects once a second, and does not ask the store in between without end."""
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


async def kill_workers_later(bench: Bench) -> None:
    """Let a worker die over a delivery while another one is at work and has just looked."""
    await bench.store.append(delivery())
    batch = await bench.store.routing_batch(limit=1, max_bytes=1)
    new = [NewWork(1, HandlerName("h"), starts=True)]
    await bench.store.route(batch, new, lease=Lease(OTHER, NOON), now=NOON)


# --- stopping


async def test_what_runs_may_finish_within_the_grace_time(bench: Bench) -> None:
    """Its result is recorded, and nothing new is claimed."""

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


async def test_what_does_not_finish_is_cancelled_uncounted_and_given_back(bench: Bench) -> None:
    """Another worker has it at once, as the same attempt."""

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


async def test_an_idle_worker_stops_at_once(bench: Bench) -> None:
    """Nothing is given back and nobody left behind."""
    async with bench.working():
        pass

    assert bench.left_behind == 0
    assert "give_back" not in bench.store.called


async def test_a_worker_without_handlers_still_routes(bench: Bench) -> None:
    """What comes is done, since nobody wants it."""
    async with bench.working():
        await bench.add(delivery())

    assert await bench.state() is DeliveryState.DONE


async def test_a_store_that_is_away_does_not_keep_a_worker_from_stopping(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The leases end by themselves; what is lost is said."""

    @bench.handler(timeout=timedelta(hours=1))
    async def handler(event: Any) -> None:
        if event.webhook_id == "b":
            await bench.clock.sleep(timedelta(minutes=50))

    bench.store.failing |= {"settle": StoreError("locked"), "give_back": StoreError("locked")}
    async with bench.working():
        await bench.add(delivery("a"), delivery("b"))

    words = {record.getMessage() for record in caplog.records}
    assert {"settle_retrying", "results_lost", "leases_not_released"} <= words


async def test_a_handler_that_refuses_to_end_is_left_behind(bench: Bench) -> None:
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


# --- waiting for the first


async def test_the_first_to_return_ends_the_others() -> None:
    """They are cancelled and have ended when it returns."""
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    await soon(first_of(waits(), asyncio.sleep(0)))

    assert ended == ["other"]


async def test_what_the_first_one_raises_comes_through() -> None:
    """As a store error has to reach the loop."""

    async def raises() -> None:
        raise StoreError("locked")

    with pytest.raises(StoreError):
        await soon(first_of(asyncio.Event().wait(), raises()))
