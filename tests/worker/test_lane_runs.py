"""Items of one lane run one after the other, without a claim between, and the store is told in time."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from receiver.core.claims import Lease, WorkItem
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Succeeded
from receiver.core.types import HandlerName, HandlerSwitch, Trigger, WorkState
from receiver.core.work import NewWork
from receiver.errors import StoreError
from receiver.events import Event
from receiver.worker.attempts import Claimed, Ended
from receiver.worker.leases import LaneRuns, Leases
from tests.doubles import NOON, appended, delivery, eventually, turns
from tests.stores.opened import ended
from tests.worker.worker_bench import MINUTE, OTHER, SECOND, WorkerBench

DONE, DEAD, QUEUED = WorkState.DONE, WorkState.DEAD, WorkState.QUEUED
RUNNING, WAITING = WorkState.RUNNING, WorkState.WAITING


class Lane:
    """A handler that is told at which deliveries of its lane to wait, and at which to fail."""

    def __init__(self, bench: WorkerBench, **options: Any) -> None:
        self._bench = bench
        self.gates: dict[str, asyncio.Event] = {}
        self.failing: dict[str, Callable[[], BaseException]] = {}

        @bench.handler("h", "crawl.page", ordered=True, **options)
        async def handle(event: Event) -> None:
            key = str(event.webhook_id)
            bench.ran.append(key)
            if key in self.gates:
                await self.gates[key].wait()
            if key in self.failing:
                raise self.failing[key]()

    async def show_quickness(self) -> None:
        """Let it handle one delivery of another job: an unknown handler has no followers."""
        await self._bench.add(delivery("quick", job_id="another"))
        assert self._bench.ran == ["quick"]
        self._bench.ran.clear()
        self._bench.store.called.clear()

    async def add(self, keys: str) -> None:
        """Store deliveries of one job, and let everything happen that follows."""
        await self._bench.add(*[delivery(key) for key in keys])

    async def states(self, keys: str) -> list[WorkState]:
        """Return the states of their work items."""
        return [(await self._bench.outcome(key))[0] for key in keys]


async def test_followers_need_no_claim(bench: WorkerBench) -> None:
    """Each runs once, in order, and all are recorded by one call; the only claim finds nothing."""
    lane = Lane(bench)
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcdefgh")

        assert bench.ran == list("abcdefgh")
        assert [await bench.outcome(key) for key in "abcdefgh"] == [(DONE, 1, None)] * 8
        assert bench.store.called.count("settle") == 1


async def test_followers_come_with_a_claim(bench: WorkerBench) -> None:
    """Another worker routed them, and left them. The first one shows that the handler is quick."""
    lane = Lane(bench)
    await lane.add("abcd")
    batch = await bench.store.routing_batch(limit=9, max_bytes=10**9)
    work = [NewWork(one.seq, HandlerName("h"), claim=False, lane="job") for one in batch.deliveries]
    await bench.store.route(batch, work, lease=Lease(OTHER, NOON), now=NOON)
    async with bench.working():
        await turns()

        assert bench.ran == list("abcd")
        assert bench.store.called.count("settle") == 2


async def test_the_store_learns_soon_of_a_follower_that_takes_its_time(bench: WorkerBench) -> None:
    """Those before it are done and it runs, so nobody else takes it, and a death would count."""
    lane = Lane(bench)
    lane.gates["c"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcde")

        assert bench.ran == list("abc")
        assert await lane.states("abcde") == [DONE, DONE, RUNNING, QUEUED, QUEUED]
        lane.gates["c"].set()
        await turns()
        assert await lane.states("abcde") == [DONE] * 5
    assert bench.ran == list("abcde")


async def test_what_fails_keeps_its_place(bench: WorkerBench) -> None:
    """Nothing behind it runs before it is tried again."""
    lane = Lane(bench, pauses=(SECOND,))
    lane.failing["c"] = lambda: ValueError("no")
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcde")

        assert bench.ran == list("abc")
        assert await lane.states("abcde") == [DONE, DONE, WAITING, QUEUED, QUEUED]
        assert await bench.outcome("c") == (WAITING, 1, "ValueError: no")
        del lane.failing["c"]
        await bench.after(SECOND)
        assert await lane.states("abcde") == [DONE] * 5
    assert bench.ran == list("abccde")


async def test_a_dead_one_lets_the_lane_go_on(bench: WorkerBench) -> None:
    """The lane does not hold for it."""
    lane = Lane(bench, attempts=1)
    lane.failing["b"] = lambda: ValueError("no")
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcd")

        assert await lane.states("abcd") == [DONE, DEAD, DONE, DONE]
    assert bench.ran == list("abcd")


async def test_a_stop_leaves_the_followers_in_the_queue(bench: WorkerBench) -> None:
    """What runs is cancelled and uncounted. Another worker begins with it."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working(grace=timedelta(0)):
        await lane.show_quickness()
        await lane.add("abcd")

    assert await lane.states("abcd") == [DONE, WAITING, QUEUED, QUEUED]
    assert await bench.outcome("b") == (WAITING, 0, None)
    lane.gates["b"].set()
    async with bench.working(worker=OTHER):
        await turns()
    assert bench.ran == list("abbcd")
    assert await lane.states("abcd") == [DONE] * 4


async def test_a_stop_waits_for_one_and_not_for_all(bench: WorkerBench) -> None:
    """The one that runs may end. Nothing follows it."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working() as stop:
        await lane.show_quickness()
        await lane.add("abcd")
        stop.set()
        await turns()
        lane.gates["b"].set()
        await turns()

    assert bench.ran == list("ab")
    assert await lane.states("abcd") == [DONE, DONE, WAITING, QUEUED]


async def test_a_paused_handler_stops_within_a_second(bench: WorkerBench) -> None:
    """The one that runs ends, and the next one waits."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcd")
        await bench.store.switch(HandlerName("h"), HandlerSwitch.PAUSED)
        await bench.after(SECOND)
        lane.gates["b"].set()
        await bench.after(SECOND)
        assert bench.ran == list("ab")
        assert await lane.states("abcd") == [DONE, DONE, WAITING, QUEUED]

        await bench.store.switch(HandlerName("h"), HandlerSwitch.ON)
        await bench.after(SECOND)
        assert await lane.states("abcd") == [DONE] * 4
    assert bench.ran == list("abcd")


async def test_a_lane_runs_on_while_the_store_is_away(bench: WorkerBench) -> None:
    """Nothing runs twice, and the records come when the store does."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcd")
        bench.store.failing["settle"] = StoreError("away")
        lane.gates["b"].set()
        await turns()
        assert await lane.states("abcd") == [DONE, RUNNING, QUEUED, QUEUED]

        bench.store.failing.clear()
        await bench.after(SECOND)
        assert await lane.states("abcd") == [DONE] * 4
    assert bench.ran == list("abcd")


async def test_an_answer_of_the_store_may_be_lost(bench: WorkerBench) -> None:
    """It has recorded the results and claimed the follower that runs. Nothing runs twice."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        bench.store.losing["settle"] = StoreError("the answer is lost")
        await lane.add("abc")
        bench.store.losing.clear()
        await bench.after(SECOND)
        lane.gates["b"].set()
        await bench.after(SECOND)

        assert await lane.states("abc") == [DONE] * 3
    assert bench.ran == list("abc")


async def test_nothing_follows_what_has_lost_its_lease(bench: WorkerBench) -> None:
    """Another worker may run the lane by now."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcd")
        bench.store.failing["renew"] = StoreError("away")
        await bench.after(MINUTE + SECOND)
        lane.gates["b"].set()
        await turns(10)

        assert bench.ran == list("ab")


async def test_an_item_that_is_taken_away_meanwhile_is_not_recorded(bench: WorkerBench) -> None:
    """An operator buries it while the store does not know yet that it runs. The lane goes on behind it."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        bench.store.failing["settle"] = StoreError("away")
        await lane.add("abcd")
        assert bench.ran == list("ab")
        (buried,) = [one.id for one in await bench.work("b")]
        await bench.store.bury([buried], "not wanted", now=NOON)
        bench.store.failing.clear()
        await bench.after(SECOND)
        lane.gates["b"].set()
        await bench.after(SECOND)

        assert await lane.states("abcd") == [DONE, DEAD, DONE, DONE]
    assert bench.ran == list("abcd")


async def test_a_worker_that_has_gone_through_long_lanes_claims_as_much_as_before(bench: WorkerBench) -> None:
    """Followers that do not run are not counted for ever: each lane here ends early."""
    keys = [f"{n}" for n in range(1_200)]
    lane = Lane(bench, attempts=1)
    lane.failing = {key: lambda: ValueError("no") for key in keys[::7]}
    await bench.add(*[delivery(key, job_id=f"job-{int(key) % 40}") for key in keys])
    async with bench.working():
        await turns(20_000)

        assert sorted(bench.ran, key=int) == keys
        assert await bench.store.count_unfinished() == 0


async def test_a_lane_with_a_backlog_does_not_keep_others_waiting(bench: WorkerBench) -> None:
    """Followers do not count as claimed work, of which a worker claims only so much."""
    lane = Lane(bench)
    lane.gates["3"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        await bench.add(*[delivery(str(n)) for n in range(500)], delivery("x", job_id="other"))
        await bench.add(delivery("y", job_id="another"))

        assert sorted(bench.ran) == [*"0123", "x", "y"]
        lane.gates["3"].set()
        await turns(5_000)
        assert [key for key in bench.ran if key.isdigit()] == [str(n) for n in range(500)]


async def test_what_an_operator_buries_does_not_run_a_second_later(bench: WorkerBench) -> None:
    """A worker that has read it as a follower asks the store again."""
    lane = Lane(bench)
    lane.gates["a"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abc")
        await bench.store.bury([one.id for one in await bench.work("b")], "not wanted", now=NOON)
        await bench.after(SECOND)
        lane.gates["a"].set()
        await turns()

    assert bench.ran == list("ac")


async def test_a_follower_is_claimed_with_a_lease_from_now(bench: WorkerBench) -> None:
    """The store was away for most of a lease, so one from before would end at once."""
    lane = Lane(bench)
    lane.gates["b"] = asyncio.Event()
    async with bench.working():
        await lane.show_quickness()
        bench.store.failing["settle"] = StoreError("away")
        await lane.add("abc")
        for _ in range(50):
            await bench.after(SECOND)
        bench.store.failing.clear()
        await bench.after(SECOND)
        (b,) = await bench.work("b")
        lease = bench.store.state.work[b.id].lease_until

    assert lease is not None
    assert lease >= NOON + 50 * SECOND + MINUTE


async def test_a_follower_that_waits_for_a_slot_is_not_noted_as_started(bench: WorkerBench) -> None:
    """If the worker dies now, it is not the cause."""
    lane = Lane(bench)
    lane.gates["other"] = asyncio.Event()
    async with bench.working(concurrency=1):
        await lane.show_quickness()
        await bench.add(delivery("a"), delivery("b"), delivery("other", job_id="other"))
        row = bench.store.state.work[(await bench.work("b"))[0].id]
        await eventually(lambda: row.state is RUNNING)  # results gather for a while
        assert not row.started

        lane.gates["other"].set()
        await turns()
    assert bench.ran == ["a", "other", "b"]


async def test_a_slow_handler_has_no_followers(bench: WorkerBench) -> None:
    """Each of its items is claimed when its turn comes, until one was quick again."""
    lane = Lane(bench)
    lane.gates = {key: asyncio.Event() for key in "abc"}
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abcdefg")
        for gate in lane.gates.values():
            await bench.after(SECOND)
            gate.set()
        await turns()

        assert bench.ran == list("abcdefg")
        assert bench.store.called.count("settle") == 5  # a, b, c, d, and the rest


async def test_one_hot_lane_leaves_slots_to_others(bench: WorkerBench) -> None:
    """Followers wait in line for a slot like all others."""
    lane = Lane(bench)
    bench.handler("other", "crawl.started")(lambda event: bench.ran.append("other"))
    await lane.add("abcdefgh")
    await bench.add(delivery("x", kind="crawl.started"))
    async with bench.working(concurrency=1):
        await turns()

    assert bench.ran[:3] == ["a", "other", "b"]
    assert len(bench.ran) == 9


async def test_no_followers_for_a_minute_after_a_death(bench: WorkerBench) -> None:
    """The store knows each item that runs, so the next death has the right cause."""
    lane = Lane(bench)
    await appended(bench.store, delivery("x", job_id="other"))
    batch = await bench.store.routing_batch(limit=9, max_bytes=10**9)
    new = [NewWork(batch.deliveries[0].seq, HandlerName("h"), starts=True)]
    await bench.store.route(batch, new, lease=Lease(OTHER, NOON), now=NOON)
    await bench.store.expire_leases_of(OTHER, now=NOON)
    async with bench.working():
        await bench.after(SECOND)
        assert bench.ran == ["x"]
        settled = bench.store.called.count("settle")
        await lane.add("abc")
        assert bench.store.called.count("settle") == settled + 3

        await bench.after(MINUTE + SECOND)
        await lane.add("def")
        assert bench.store.called.count("settle") == settled + 4
    assert bench.ran == list("xabcdef")


async def test_a_worker_that_replaces_a_dead_one_has_no_followers_for_a_minute(bench: WorkerBench) -> None:
    """The dead one may have died of a follower that the store did not know to run, and left no suspect."""
    lane = Lane(bench)
    async with bench.working(replaces_dead=True):
        await lane.show_quickness()
        await lane.add("abc")
        assert bench.store.called.count("settle") == 3

        await bench.after(MINUTE + SECOND)
        await lane.add("def")
        assert bench.store.called.count("settle") == 4
    assert bench.ran == list("abcdef")


async def test_the_result_of_a_follower_that_was_not_claimed_ends_no_other_attempt(bench: WorkerBench) -> None:
    """The lease of its head was lost. Another worker ends the head, and this one claims the follower anew."""
    lane = Lane(bench)
    lane.gates = {key: asyncio.Event() for key in "ab"}
    async with bench.working():
        await lane.show_quickness()
        await lane.add("abc")
        (a,) = await bench.work("a")
        bench.store.state.work[a.id].worker = OTHER
        lane.gates["a"].set()
        await turns()
        assert bench.ran == list("ab")
        number = bench.store.state.work[a.id].attempts
        await bench.store.settle([ended(a.id, worker=OTHER, number=number)])
        first, lane.gates["b"] = lane.gates["b"], asyncio.Event()
        await bench.after(SECOND)
        assert bench.ran == list("abb")

        first.set()
        await turns()
        assert await lane.states("abc") == [DONE, RUNNING, QUEUED]
        lane.gates["b"].set()
        await turns()
        assert await lane.states("abc") == [DONE] * 3
    assert bench.ran == list("abbc")


def test_a_run_whose_head_is_claimed_anew_claims_nothing_more(bench: WorkerBench) -> None:
    """What it has begun may belong to the new claim by now, and its own results are refused."""
    bench.handler(ordered=True)(lambda event: None)
    leases = Leases(bench.store, bench.clock, OTHER, MINUTE)
    lanes = LaneRuns(leases, bench.clock)
    head, follower = (
        Claimed(
            WorkItem(n, HandlerName("h"), 1, 0, 0, Trigger.DELIVERY, StoredDelivery(n, 0, delivery(f"{n}")), True),
            bench.router[HandlerName("h")],
        )
        for n in (1, 2)
    )
    leases.add([head, follower], leases.new_lease())
    head = lanes.begin(head, [follower])
    following = lanes.ended(head, Ended(ended(1).attempt, Succeeded()))
    assert following is not None
    assert following.item == follower.item

    lanes.lost([1])
    settlements, claims = lanes.to_record([(ended(1), head.run)])

    assert settlements[0].behind is not None
    assert claims == {}
