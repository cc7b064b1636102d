"""Every order of events that Hypothesis can think of, against the rules of dispatch.

A few workers share a store. They claim, run, settle late or never, crash, stop and go on, while deliveries arrive,
the clock is set to and fro and operators decide. After each step the store has to say what the model of the rules
says, and at the end, with everybody well again, nothing may be left over.

RULES_EXAMPLES is how many runs each store gets; PostgreSQL gets a quarter of them, as each takes longer there.
Set, the runs are new ones each time: `RULES_EXAMPLES=5000 pytest tests/flows/test_dispatch_rules.py`. Without it
they are few and always the same.
"""

import asyncio
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from receiver.core.claims import ClaimLimits, WorkItem
from receiver.core.deliveries import Delivery
from receiver.core.ports.queue import WorkQueue
from receiver.core.ports.store import Store
from receiver.core.types import HandlerName, HandlerSwitch
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.queue import PostgresQueue, RoutingTurn
from receiver.stores.postgres.store import PostgresStore
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import OpenStore
from tests.flows.rules_end import drive_to_the_end
from tests.flows.rules_items import Policy
from tests.flows.rules_world import LEASE, MUCH, Ending, Following, Worker, World
from tests.stores.postgres.shared import drop_schema
from tests.stores.postgres.test_concurrency import database_of

T = TypeVar("T")
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
MEMORY = "/dev/shm"
"""A folder in memory: files there wait for no disk. Power cuts have their own tests."""
MOST = 40
"""Deliveries in one run."""
KINDS = ("crawl.page", "crawl.started", "crawl.completed")


def job(delivery: Delivery) -> str | None:
    """Return the job id as the lane."""
    return delivery.job_id


POLICIES = [
    Policy(HandlerName("plain"), KINDS),
    Policy(HandlerName("ordered"), KINDS, lane=job),
    Policy(HandlerName("stopping"), KINDS, (SECOND,), lane=job, holds_when_dead=True),
    Policy(HandlerName("narrow"), KINDS, concurrency=2),
    Policy(HandlerName("rated"), KINDS, interval=2 * SECOND),
    Policy(HandlerName("brisk"), KINDS, interval=SECOND / 25),
    Policy(HandlerName("strict"), KINDS, lane=job, concurrency=1, interval=2 * SECOND),
    Policy(HandlerName("one by one"), KINDS, lane=job, concurrency=1),
    Policy(HandlerName("last"), ("crawl.completed",), quiet=30 * SECOND, at_most=25 * MINUTE),
    Policy(HandlerName("last in order"), KINDS, lane=job, quiet=30 * SECOND, at_most=25 * MINUTE),
]

BY_NAME = {one.name: one for one in POLICIES}

handlers = st.lists(st.sampled_from(list(BY_NAME)), min_size=2, max_size=4, unique=True)
number = st.integers(0, 40)
several = st.lists(number, min_size=1, max_size=4)
few = st.integers(1, 5)
jobs = st.sampled_from(["a", "a", "a", "b", None])
kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=4)
max_bytes = st.sampled_from([MUCH, MUCH, 1, 5_000])
answers = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=4)
endings = st.lists(
    st.sampled_from([Ending.SUCCESS, Ending.FAILURE] * 2 + [Ending.LATER, Ending.GIVING_UP]), min_size=1, max_size=4
)
following = st.lists(
    st.builds(
        Following,
        st.integers(0, 4),
        st.sampled_from([Ending.SUCCESS] * 3 + [Ending.FAILURE, Ending.GIVING_UP]),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)
seconds = st.sampled_from([SECOND / 20, SECOND, 5 * SECOND, LEASE / 2, LEASE])
durations = seconds | st.sampled_from([LEASE + SECOND, 8 * MINUTE]) | st.timedeltas(timedelta(0), timedelta(days=4))

MOVES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "arrive": {"kinds": kinds, "job": jobs, "number": number, "answers": answers},
    "arrive_unseen": {"kinds": kinds, "job": jobs},
    "arrive_large_or_again": {"size": st.sampled_from([10, 10, 10, 5_000]), "number": number},
    "pass_time": {"by": durations},
    "set_clock_forward": {"by": seconds | durations},
    "set_clock_back": {"by": seconds | seconds | durations},
    "read": {"number": number, "limit": few, "max_bytes": max_bytes},
    "route": {"number": number, "other": number, "answers": answers},
    "claim": {
        "number": number,
        "most": few,
        "without": st.sampled_from([0, 0, 0, 1, 2]),
        "wanted": st.builds(ClaimLimits, st.integers(1, 12), max_bytes, st.integers(0, 3), st.booleans()),
        "followers": st.booleans(),
    },
    "work": {
        "number": number,
        "endings": endings,
        "suspects": st.sampled_from([False, False, False, True]),
        "following": following,
    },
    "run_lanes": {
        "number": number,
        "other": number,
        "meanwhile": st.sampled_from(["nothing", "lost", "bury", "bury and retry", "retry", "disable", "pause"]),
        "items": several,
        "answers": answers,
        "following": following,
    },
    "settle": {"number": number, "items": several, "endings": endings, "following": following},
    "wake_late": {
        "number": number,
        "other": number,
        "starting": few,
        "does": st.sampled_from(["settle", "settle", "mark", "renew", "give back"]),
        "endings": endings,
        "following": following,
    },
    "mark": {"number": number, "items": several, "absolves": several | st.none()},
    "renew": {"number": number, "items": several},
    "release_leases": {"number": number, "items": several},
    "stop": {"number": number},
    "crash": {
        "number": number,
        "taken_over": st.booleans(),
        "claims": few,
        "suspects": st.booleans(),
        "begun": st.booleans(),
    },
    "freeze": {"number": number},
    "thaw": {},
    "once": {"number": number, "key": st.sampled_from(["mail", "bill"])},
    "look": {"number": number},
    "retry": {"items": several},
    "bury": {"items": several},
    "switch": {
        "number": number,
        "seen": st.booleans(),
        "to": st.sampled_from([HandlerSwitch.ON] * 2 + [HandlerSwitch.PAUSED, HandlerSwitch.DISABLED]),
    },
}
OFTEN = [
    "arrive",
    "arrive",
    "claim",
    "claim",
    "work",
    "work",
    "work",
    "run_lanes",
    "run_lanes",
    "settle",
    "pass_time",
    "pass_time",
    "wake_late",
]
moves = st.one_of([st.tuples(st.just(name), st.fixed_dictionaries(MOVES[name])) for name in [*MOVES, *OFTEN]])


class Dispatch(RuleBasedStateMachine):
    """One run. A `number` names a worker, a handler or a delivery, modulo how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None)
        self.failed = False
        self.world: World | None = None

    def store(self) -> Store:
        """Return a new store."""
        raise NotImplementedError

    def do(self, move: Coroutine[Any, Any, T]) -> T:
        """Make a move, and note whether it failed."""
        try:
            return self.loop.run_until_complete(move)
        except BaseException:
            self.failed = True
            raise

    def teardown(self) -> None:
        """Drive the rest to its end, and close everything."""
        try:
            if self.world is not None and not self.failed:
                self.do(drive_to_the_end(self.world))
        finally:
            if self.world is not None:
                self.loop.run_until_complete(self.world.aclose())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            self.folder.cleanup()

    @initialize(handlers=handlers, workers=st.sampled_from([2, 4]))
    def begin(self, handlers: list[HandlerName], workers: int) -> None:
        """Begin with some handlers and two or four workers."""
        self.world = World(self.store(), [BY_NAME[name] for name in handlers])
        self.do(self.world.begin(workers))

    @rule(move=moves)
    def step(self, move: tuple[str, dict[str, Any]]) -> None:
        """Make one of the moves below. With so many rules, Hypothesis would leave half of them out of a run."""
        name, values = move
        getattr(self, name)(**values)

    @property
    def here(self) -> World:
        """The world, after its start."""
        assert self.world is not None
        return self.world

    def worker(self, number: int) -> Worker:
        """Return a worker that is not stopped."""
        able = [one for one in self.here.workers if not one.frozen]
        return able[number % len(able)]

    def busy(self, number: int) -> Worker:
        """Return a worker that takes some item for its own, if there is one."""
        able = [one for one in self.here.workers if one.believed and not one.frozen]
        return able[number % len(able)] if able else self.worker(number)

    def some(self, worker: Worker, numbers: list[int]) -> list[WorkItem]:
        """Return some of the items that a worker takes for its own."""
        believed = worker.believed
        picked = {number % len(believed) for number in numbers} if believed else set()
        return [believed[number] for number in sorted(picked)]

    def ids(self, numbers: list[int]) -> list[int]:
        """Return the ids of some items."""
        known = list(self.here.rules.items)
        return sorted({known[number % len(known)] for number in numbers}) if known else []

    # --- deliveries and the clock

    def arrive(self, kinds: list[str], job: str | None, number: int, answers: list[tuple[bool, bool]]) -> None:
        """Deliveries of one job arrive and are routed."""
        self.arrive_unseen(kinds, job)
        worker = self.worker(number)
        self.do(self.here.read(worker, 10))
        self.do(self.here.route(worker, answers))

    def arrive_unseen(self, kinds: list[str], job: str | None) -> None:
        """Deliveries of one job arrive, and no worker routes them yet."""
        if len(self.here.rules.arrived) < MOST:
            for kind in kinds:
                self.do(self.here.arrive(kind, job, size=10))

    def arrive_large_or_again(self, size: int, number: int) -> None:
        """A large delivery arrives, or a known one arrives again."""
        arrived = len(self.here.rules.arrived)
        if number < arrived:
            self.do(self.here.arrive_again(number, size=size))
        elif arrived < MOST:
            self.do(self.here.arrive("crawl.page", "a", size=size))

    def pass_time(self, by: timedelta) -> None:
        """Time passes."""
        self.here.pass_time(by)

    def set_clock_forward(self, by: timedelta) -> None:
        """The clock is set forward."""
        self.here.set_clock(by)

    def set_clock_back(self, by: timedelta) -> None:
        """The clock is set back."""
        self.here.set_clock(-by)

    # --- what workers do

    def read(self, number: int, limit: int, max_bytes: int) -> None:
        """A worker reads new deliveries, and does not route them yet."""
        self.do(self.here.read(self.worker(number), limit, max_bytes))

    def route(self, number: int, other: int, answers: list[tuple[bool, bool]]) -> None:
        """A worker routes deliveries that it read before, perhaps later than another worker."""
        worker, quicker = self.worker(number), self.worker(other)
        if worker.read is None:
            self.do(self.here.read(worker, 5))
            if quicker is not worker:
                self.do(self.here.read(quicker, 3))
                self.do(self.here.route(quicker, answers))
        self.do(self.here.route(worker, answers))

    def claim(self, number: int, most: int, without: int, wanted: ClaimLimits, followers: bool) -> None:
        """A worker claims items, perhaps with their followers."""
        world = self.here
        claimants = world.claimants(number, most, without, followers=followers)
        self.do(world.claim(self.worker(number), claimants, wanted))

    def work(self, number: int, endings: list[Ending], suspects: bool, following: list[Following]) -> None:
        """A worker claims, runs and settles without delay."""
        world, worker = self.here, self.worker(number)
        wanted = ClaimLimits(1 if suspects else 20, MUCH, 1 if suspects else 20, suspects)
        claimants = world.claimants(number, followers=True)
        self.end(worker, self.do(world.claim(worker, claimants, wanted)), endings, following)

    def run_lanes(
        self,
        number: int,
        other: int,
        meanwhile: str,
        items: list[int],
        answers: list[tuple[bool, bool]],
        following: list[Following],
    ) -> None:
        """A worker runs items and their followers, and meanwhile something happens to these."""
        world, worker = self.here, self.worker(number)
        self.arrive(["crawl.page"] * 4, "a", number, answers)
        self.do(world.claim(worker, world.claimants(number, followers=True), ClaimLimits(20, MUCH, 20)))
        behind = sorted({follower.id for one in worker.believed for follower in one.followers})
        some = sorted({behind[n % len(behind)] for n in items}) if behind else []
        match meanwhile:
            case "lost":
                world.pass_time(LEASE)
                quicker = self.worker(other)
                wanted = ClaimLimits(20, MUCH, 20, suspects=True)
                self.do(world.claim(quicker, world.claimants(other, followers=True), wanted))
            case "bury" | "bury and retry":
                self.do(world.bury(some))
            case "disable" | "pause":
                to = HandlerSwitch.DISABLED if meanwhile == "disable" else HandlerSwitch.PAUSED
                self.switch(number, to, seen=other % 2 == 0)
        if meanwhile in ("retry", "bury and retry"):
            self.do(world.retry(some if meanwhile == "bury and retry" else self.ids(items)))
        self.end(worker, list(worker.believed), [Ending.SUCCESS], following)

    def settle(self, number: int, items: list[int], endings: list[Ending], following: list[Following]) -> None:
        """A worker records the end of some items, even if it has lost their leases."""
        worker = self.busy(number)
        self.end(worker, self.some(worker, items), endings, following)

    def wake_late(
        self, number: int, other: int, starting: int, does: str, endings: list[Ending], following: list[Following]
    ) -> None:
        """A worker does not renew its leases, and ends its items after others have claimed them."""
        world, worker = self.here, self.busy(number)
        late = list(worker.believed)
        world.pass_time(LEASE)
        for suspects in (True, False):
            wanted = ClaimLimits(50, MUCH, starting, suspects)
            self.do(world.claim(self.worker(other), world.claimants(other), wanted))
        match does:
            case "mark":
                self.do(world.mark(worker, late))
            case "renew":
                self.do(world.renew(worker, late))
            case "give back":
                self.do(world.release_leases(worker, late))
            case _:
                self.end(worker, late, endings, following)

    def end(self, worker: Worker, items: list[WorkItem], endings: list[Ending], following: list[Following]) -> None:
        """Let a worker record the ends of these items, and of followers that it ran."""
        ends = [(one, endings[n % len(endings)]) for n, one in enumerate(items)]
        self.do(self.here.settle(worker, ends, following))

    def mark(self, number: int, items: list[int], absolves: list[int] | None) -> None:
        """A worker notes that items have started, and may remove some of the notes."""
        worker = self.busy(number)
        self.do(self.here.mark(worker, self.some(worker, items)))
        if absolves is not None:
            self.do(self.here.clear_started(worker, self.some(worker, absolves)))

    def renew(self, number: int, items: list[int]) -> None:
        """A worker renews some of its leases."""
        worker = self.busy(number)
        self.do(self.here.renew(worker, self.some(worker, items)))

    def release_leases(self, number: int, items: list[int]) -> None:
        """A worker returns items that it will not run."""
        worker = self.busy(number)
        self.do(self.here.release_leases(worker, self.some(worker, items)))

    def stop(self, number: int) -> None:
        """A worker stops, and another one starts."""
        worker = self.busy(number)
        self.do(self.here.release_leases(worker, list(worker.believed)))
        self.do(self.here.restart(worker, taken_over=False))

    def crash(self, number: int, taken_over: bool, claims: int, suspects: bool, begun: bool) -> None:
        """A worker dies of its last item, or of something else, and its leases end."""
        world, worker = self.here, self.busy(number)
        wanted = ClaimLimits(claims, MUCH, claims if begun else 0, suspects)
        self.do(world.claim(worker, world.claimants(number), wanted))
        self.do(world.restart(worker, taken_over=taken_over))
        world.pass_time(timedelta(0) if taken_over else LEASE)

    def freeze(self, number: int) -> None:
        """A worker is stopped at any moment (SIGSTOP)."""
        if sum(not one.frozen for one in self.here.workers) > 1:
            self.worker(number).frozen = True

    def thaw(self) -> None:
        """Stopped workers go on."""
        for worker in self.here.workers:
            worker.frozen = False

    def once(self, number: int, key: str) -> None:
        """A handler uses a once key."""
        names = list(self.here.rules.policies)
        self.do(self.here.once(self.worker(number), names[number % len(names)], key))

    def look(self, number: int) -> None:
        """A worker checks held items, and asks for the next check."""
        worker = self.worker(number)
        self.do(self.here.look(worker))
        self.do(self.here.ask(worker, self.here.claimants(number)))

    # --- what operators decide

    def retry(self, items: list[int]) -> None:
        """An operator retries items."""
        self.do(self.here.retry(self.ids(items)))

    def bury(self, items: list[int]) -> None:
        """An operator buries items."""
        self.do(self.here.bury(self.ids(items)))

    def switch(self, number: int, to: HandlerSwitch, seen: bool) -> None:
        """An operator pauses, resumes or disables a handler, and perhaps a worker sees it at once."""
        world = self.here
        names = list(world.rules.policies)
        self.do(world.switch(names[number % len(names)], to))
        if seen:
            self.do(world.claim(self.worker(number), world.claimants(number), ClaimLimits(1, MUCH)))

    @invariant()
    def the_store_says_what_the_rules_say(self) -> None:
        """Compare all items and their attempts."""
        if self.world is not None:
            self.do(self.world.compare())


class InMemory(Dispatch):
    """Over the store in memory."""

    def store(self) -> Store:
        """Return a new store."""
        return OpenStore()


class InSqlite(Dispatch):
    """Over a file, with a connection for each worker."""

    def store(self) -> Store:
        """Return a new store."""
        return SqliteStore(f"sqlite:///{Path(self.folder.name, 'receiver.db')}")


class EveryTurn(RoutingTurn):
    """Every worker reads what is new, as with the other stores. Turns only save work."""

    def take(self, connection: PostgresConnection, *, routed: int, holder: int) -> bool:
        """Take it."""
        return True


class WithoutTurns(PostgresStore):
    """A store whose workers take no turns in reading what is new."""

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[WorkQueue]:
        """Open for working."""
        async with super().queue() as queue:
            yield PostgresQueue(database_of(queue), turn=EveryTurn())


class InPostgres(Dispatch):
    """Over a schema of a server, with a connection for each worker."""

    server: str

    def __init__(self) -> None:
        super().__init__()
        self.schema = f"rules_{secrets.token_hex(8)}"

    def store(self) -> Store:
        """Return a new store."""
        return WithoutTurns(f"{self.server}?schema={self.schema}")

    def teardown(self) -> None:
        """Drive the rest to its end, and remove the schema."""
        try:
            super().teardown()
        finally:
            drop_schema(self.server, self.schema)


@pytest.fixture(scope="module")
def server_of_rules(postgres_server: str) -> None:
    """The server for `InPostgres`."""
    InPostgres.server = postgres_server


def _settings(examples: int, share: int = 1) -> settings:
    asked = os.environ.get("RULES_EXAMPLES")
    return settings(
        max_examples=-(-int(asked) // share) if asked else examples,
        derandomize=asked is None,
        database=None,
        deadline=None,
        stateful_step_count=50,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


TestInMemory = InMemory.TestCase
TestInMemory.settings = _settings(50)
TestInSqlite = InSqlite.TestCase
TestInSqlite.settings = _settings(20)
TestInPostgres = pytest.mark.usefixtures("server_of_rules")(InPostgres.TestCase)
TestInPostgres.settings = _settings(5, share=4)
