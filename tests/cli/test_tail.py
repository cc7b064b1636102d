"""`receiver tail`: what it shows of a store that fills, goes and comes back."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from receiver.cli.tail.command import Follower, ShownToPeople, show_json
from receiver.cli.tail.states import MAX_FOLLOWED
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, Settlement
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import DeliveryFilter, DeliverySummary
from receiver.core.ports.store import Store
from receiver.core.types import DeliveryState, WorkerId, WorkState
from receiver.core.work import NewWork
from receiver.errors import AmbiguousJob, StoreRefused
from receiver.stores import open_store
from receiver.stores.memory import MemoryStore
from tests.cli.kept import NOON, SAVE, STORE, delivery, ended, fill
from tests.doubles import eventually, soon

pytestmark = pytest.mark.usefixtures("configured")

HALF = timedelta(milliseconds=500)


class Tail:
    """A tail that runs, with what it has shown and said."""

    def __init__(self, store: Store, max_followed: int = MAX_FOLLOWED) -> None:
        self.keys: list[str] = []
        self.notes: list[str] = []
        self.clock = VirtualClock()
        self.follower = Follower(store, self.clock, self.show, note=self.notes.append, max_followed=max_followed)

    def show(self, deliveries: Sequence[DeliverySummary]) -> None:
        self.keys += [one.key for one in deliveries]

    async def shows(self, *keys: str) -> None:
        """Return once exactly these have been shown, a virtual half second after the other."""

        def all_there() -> bool:
            self.clock.advance(HALF)
            return len(self.keys) >= len(keys)

        await eventually(all_there)
        assert self.keys == list(keys)

    async def tells(self, words: str) -> None:
        """Return once it has said this."""

        def said() -> bool:
            self.clock.advance(HALF)
            return any(words in line for line in self.notes)

        await eventually(said)


@asynccontextmanager
async def tailing(
    store: Store, lines: int = 10, max_followed: int = MAX_FOLLOWED, **wanted: Any
) -> AsyncIterator[Tail]:
    """Run a tail for a block."""
    tail = Tail(store, max_followed)
    running = asyncio.create_task(tail.follower.run(DeliveryFilter(**wanted), lines=lines))
    try:
        yield tail
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await soon(running)


async def add(store: Store, *keys: str, **changes: Any) -> None:
    """Append deliveries."""
    async with store.log() as log:
        for key in keys:
            await log.append(delivery(key, **changes))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Store:
    """Every store there is, empty."""
    return MemoryStore() if request.param == "memory" else open_store(STORE)


async def test_it_begins_with_the_last_few_and_goes_on(store: Store) -> None:
    """Each is shown once, in the order of arrival."""
    await add(store, "a", "b", "c")

    async with tailing(store, lines=2) as tail:
        await tail.shows("b", "c")
        await add(store, "d")
        await tail.shows("b", "c", "d")
        await add(store, "d", "e", "f")
        await tail.shows("b", "c", "d", "e", "f")
    assert tail.notes == []


async def test_without_lines_it_begins_with_what_comes_next(store: Store) -> None:
    """As many programs want it."""
    await add(store, "a")

    async with tailing(store, lines=0) as tail:
        for _ in range(3):
            await asyncio.sleep(0)
        await eventually(lambda: tail.follower.through == 1)
        await add(store, "b")
        await tail.shows("b")


async def test_filters_hold_for_the_first_and_for_all_that_follow(store: Store) -> None:
    """By type and job, as everywhere."""
    await add(store, "a", "b", job_id="job-1")
    await add(store, "c", job_id="job-2")

    async with tailing(store, lines=1, job_id="job-1") as tail:
        await tail.shows("b")
        await add(store, "d", job_id="job-2")
        await add(store, "e", job_id="job-1")
        await tail.shows("b", "e")


async def test_a_shortened_job_id_stands_for_the_one_job_that_has_it() -> None:
    """Several are an error. If there is none yet, the id is taken as it is."""
    store = MemoryStore()
    await add(store, "a", job_id="job-1")
    await add(store, "b", job_id="job-2")

    async with tailing(store, job_id="job-2") as tail:
        await tail.shows("b")
    with pytest.raises(AmbiguousJob, match="job-1, job-2"):
        await soon(Tail(store).follower.run(DeliveryFilter(job_id="job"), lines=1))
    async with tailing(store, job_id="other") as tail:
        await tail.tells("no job matched 'other' yet; waiting for events of a job with exactly this id")
        await add(store, "c", job_id="other")
        await tail.shows("c")


async def test_more_than_one_read_can_hold_are_shown_all() -> None:
    """Without waiting between the reads."""
    store = MemoryStore()
    await add(store, "first")

    async with tailing(store) as tail:
        await tail.shows("first")
        keys = [f"k{number}" for number in range(1_200)]
        await add(store, *keys)
        await tail.shows("first", *keys)


async def test_a_store_that_is_not_there_yet_is_waited_for() -> None:
    """That is said once; then all that it has is shown, as all of it has arrived since."""
    store = open_store(STORE)

    async with tailing(store, lines=1) as tail:
        await tail.tells("waiting: there is no database yet")
        await add(store, "a", "b", "c")
        await tail.shows("a", "b", "c")
        await tail.tells("following")
    assert len(tail.notes) == 2


async def test_a_store_that_is_put_back_goes_on_where_it_was(configured: None) -> None:
    """Nothing of it is shown twice, and what came meanwhile is not lost."""
    store, path = open_store(STORE), Path("kept.db")
    await add(store, "a", "b")

    async with tailing(store) as tail:
        await tail.shows("a", "b")
        moved_away(path)
        await tail.tells("moved or deleted")
        await tail.tells("no database")
        moved_back(path)
        await add(store, "c")
        await tail.shows("a", "b", "c")
        await tail.tells("following")


async def test_a_new_store_in_its_place_is_shown_from_its_beginning(configured: None) -> None:
    """Its places begin anew, and so does what is shown."""
    store, path = open_store(STORE), Path("kept.db")
    await add(store, "a", "b", "c")

    async with tailing(store, lines=1) as tail:
        await tail.shows("c")
        moved_away(path)
        await tail.tells("no database")
        await add(store, "d", "e")
        await tail.shows("c", "d", "e")


async def test_a_file_that_is_no_database_ends_it_at_the_start(configured: None) -> None:
    """Waiting would not help. Later on it is waited out: a copy may be under way."""
    spoil(Path("kept.db"))

    with pytest.raises(StoreRefused):
        await soon(Tail(open_store(STORE)).follower.run(DeliveryFilter(), lines=1))


async def test_a_file_that_is_half_copied_is_waited_for(configured: None) -> None:
    """Once it has been followed."""
    store, path = open_store(STORE), Path("kept.db")
    await add(store, "a")

    async with tailing(store) as tail:
        await tail.shows("a")
        moved_away(path)
        spoil(path)
        await tail.tells("it is not a SQLite database")
        moved_back(path)
        await add(store, "b")
        await tail.shows("a", "b")


class Working:
    """Works on what the store has, beside the tail."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def route(self, *, handler: bool = True) -> None:
        """Make a work item for each new delivery, or none for any."""
        async with self._store.queue() as queue:
            batch = await queue.routing_batch(limit=100_000, max_bytes=10**9)
            new = [NewWork(one.seq, SAVE, claim=False) for one in batch.deliveries] if handler else []
            await queue.route(batch, new, lease=Lease(WorkerId("w"), NOON), now=NOON)

    async def bury(self, *work_ids: int) -> None:
        """Let work items be dead."""
        async with self._store.controls() as controls:
            await controls.bury(work_ids, "no", now=NOON)

    async def finish(self, *work_ids: int) -> None:
        """Let work items succeed: the oldest ones that are due."""
        lease = Lease(WorkerId("w"), NOON + timedelta(days=1))
        async with self._store.queue() as queue:
            claimed = await queue.claim(
                [HandlerClaim(SAVE)], ClaimLimits(len(work_ids), 10**9), lease=lease, now=NOON
            )
            assert [one.id for one in claimed] == list(work_ids)
            ends = [Settlement(one.id, lease.worker, ended(), WorkState.DONE, NOON) for one in claimed]
            await queue.settle(ends)


async def test_with_a_state_each_is_shown_when_it_comes_to_it(store: Store) -> None:
    """Whenever that is, and not again; what ends otherwise is not shown."""
    working = Working(store)
    await add(store, "a")
    await working.route()
    await working.bury(1)

    async with tailing(store, state=DeliveryState.DEAD) as tail:
        await tail.shows("a")
        await add(store, "b", "c", "d")
        await working.route()
        await working.bury(3)
        await tail.shows("a", "c")
        await working.finish(2)
        await working.bury(4)
        await tail.shows("a", "c", "d")
        await add(store, "e")
        await working.route()
        await working.bury(5)
        await tail.shows("a", "c", "d", "e")


async def test_what_arrived_before_is_followed_to_its_end(store: Store) -> None:
    """It may be the very one that somebody waits for. No handler is an end, too."""
    working = Working(store)
    await add(store, "a", "b")
    await working.route()
    await add(store, "c")

    async with tailing(store, state=DeliveryState.DONE, lines=0) as tail:
        await eventually(lambda: tail.follower.through == 3)
        await working.route(handler=False)
        await tail.shows("c")
        await working.finish(1)
        await tail.shows("c", "a")
        await working.finish(2)
        await tail.shows("c", "a", "b")


async def test_the_other_filters_hold_with_a_state(store: Store) -> None:
    """All of them have to fit."""
    working = Working(store)

    async with tailing(store, state=DeliveryState.WORKING, job_id="job-2") as tail:
        await add(store, "a")
        await add(store, "b", job_id="job-2")
        await working.route()
        await tail.shows("b")


async def test_new_ones_are_shown_as_they_arrive(store: Store) -> None:
    """Nothing comes to that state later."""
    working = Working(store)
    await add(store, "a")
    await working.route()

    async with tailing(store, state=DeliveryState.NEW) as tail:
        await eventually(lambda: tail.follower.through == 1)
        await add(store, "b")
        await tail.shows("b")


async def test_a_store_that_is_put_back_finishes_what_was_waited_for(configured: None) -> None:
    """Also what came to the state while it was away, and although nothing had been shown yet."""
    store, path = open_store(STORE), Path("kept.db")
    working = Working(store)
    await add(store, "a", "b")
    await working.route()

    async with tailing(store, state=DeliveryState.DEAD) as tail:
        await eventually(lambda: tail.follower.through == 2)
        await add(store, "c")
        await eventually(lambda: tail.follower.through == 3)
        moved_away(path)
        await tail.tells("no database")
        moved_back(path)
        await working.bury(1, 2)
        await tail.shows("a", "b")
        await working.route()
        await working.bury(3)
        await tail.shows("a", "b", "c")


async def test_of_too_many_the_newest_are_followed() -> None:
    """Memory stays bounded, however long a handler is paused."""
    store = MemoryStore()
    working = Working(store)
    await add(store, *"abcd")
    await working.route()

    async with tailing(store, max_followed=3, state=DeliveryState.DEAD) as tail:
        await eventually(lambda: tail.follower.through == 4)
        await working.bury(1, 2)
        await tail.shows("b")
        await add(store, *"efg")
        await working.route()
        await eventually(lambda: tail.follower.through == 7)
        await working.bury(3, 4, 5, 6, 7)
        await tail.shows(*"befg")


def spoil(path: Path) -> None:
    path.write_bytes(b"not a database" * 100)


def moved_away(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        if (part := Path(f"{path}{end}")).exists():
            part.rename(f"away{end}")


def moved_back(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        if (part := Path(f"away{end}")).exists():
            part.rename(f"{path}{end}")


def summaries() -> list[DeliverySummary]:
    """Return deliveries as a store lists them."""

    async def read() -> list[DeliverySummary]:
        async with open_store(STORE).reports() as reports:
            return [one async for one in reports.deliveries(DeliveryFilter())]

    fill(lambda store: add_both(store.log))
    return asyncio.run(read())


async def add_both(log: Any) -> None:
    for key in ("a", "b"):
        await log.append(delivery(key))


def test_json_is_that_of_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    """One object per line, written at once."""
    show_json(summaries())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run(receiver.main, ["events", "list", "--json"]) == 0

    assert lines == [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_in_a_pipe_each_is_a_line_of_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether they come together or one by one."""
    show = ShownToPeople()
    for one in summaries():
        show([one])
    lines = capsys.readouterr().out
    assert run(receiver.main, ["events", "list"]) == 0

    assert lines == capsys.readouterr().out


def test_a_database_in_a_folder_that_is_not_there_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    """It could not be created either: exit code 3 as everywhere."""
    assert run(receiver.main, ["tail", "--store", "sqlite:///nowhere/x.db"]) == 3
    assert "there is no folder nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [("--lines", "-1"), ("--limit", "3"), ("--state", "odd")])
def test_what_cannot_be_asked_of_the_future_is_wrong_use(wrong: tuple[str, ...]) -> None:
    """Exit code 2."""
    assert run(receiver.main, ["tail", *wrong]) == 2
