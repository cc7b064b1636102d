"""`receiver tail`: what it shows of a store that fills, goes and comes back."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.common.tables import ListForm
from receiver.cli.main import receiver, run
from receiver.cli.tail import MAX_FOLLOWED, Follower, shown
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, Settlement
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.store import Store
from receiver.core.types import DeliveryState, WorkerId, WorkState
from receiver.core.views import EventRow, event_rows
from receiver.core.work import NewWork
from receiver.errors import AmbiguousJob, StoreRefused
from receiver.stores import open_store
from tests.cli.kept import NOON, SAVE, STORE, delivery, ended, fill
from tests.doubles import OpenStore, appended, eventually, soon

pytestmark = pytest.mark.usefixtures("configured")

HALF = timedelta(milliseconds=500)


class Tail:
    """A running tail with its events and remarks."""

    def __init__(self, store: Store, max_followed: int = MAX_FOLLOWED, limit: int | None = None) -> None:
        self.keys: list[str] = []
        self.notes: list[str] = []
        self.clock = VirtualClock()
        self.follower = Follower(
            store, self.clock, self.show, note=self.notes.append, max_followed=max_followed, limit=limit
        )

    def show(self, events: Sequence[EventRow]) -> None:
        self.keys += [one.summary.key for one in events]

    async def shows(self, *keys: str) -> None:
        """Return when exactly these events have been shown."""

        def all_there() -> bool:
            self.clock.advance(HALF)
            return len(self.keys) >= len(keys)

        await eventually(all_there)
        assert self.keys == list(keys)

    async def tells(self, words: str) -> None:
        """Return when it has written this remark."""

        def said() -> bool:
            self.clock.advance(HALF)
            return any(words in line for line in self.notes)

        await eventually(said)


@asynccontextmanager
async def tailing(
    store: Store, lines: int = 10, max_followed: int = MAX_FOLLOWED, **wanted: Any
) -> AsyncIterator[Tail]:
    """Run a tail during the block."""
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
            await appended(log, delivery(key, **changes))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of store, empty."""
    return OpenStore() if request.param == "memory" else open_store(STORE)


async def test_it_begins_with_the_last_few_and_continues(store: Store) -> None:
    """Each is shown once, in the order of arrival."""
    await add(store, "a", "b", "c")

    async with tailing(store, lines=2) as tail:
        await tail.shows("b", "c")
        await add(store, "d")
        await tail.shows("b", "c", "d")
        await add(store, "d", "e", "f")
        await tail.shows("b", "c", "d", "e", "f")
    assert tail.notes == []


async def test_with_a_limit_it_ends_after_so_many_events(store: Store) -> None:
    """The first ones, which had arrived before, count too."""
    await add(store, "a", "b")
    tail = Tail(store, limit=3)
    running = asyncio.create_task(tail.follower.run(DeliveryFilter(), lines=2))
    await tail.shows("a", "b")
    await add(store, "c", "d")

    await soon(running)
    assert tail.keys == ["a", "b", "c"]


async def test_without_lines_it_begins_with_the_next_event(store: Store) -> None:
    """--lines 0 suits programs."""
    await add(store, "a")

    async with tailing(store, lines=0) as tail:
        for _ in range(3):
            await asyncio.sleep(0)
        await eventually(lambda: tail.follower.through == 1)
        await add(store, "b")
        await tail.shows("b")


async def test_filters_hold_for_the_first_and_for_all_that_follow(store: Store) -> None:
    """They choose by type and job."""
    await add(store, "a", "b", job_id="job-1")
    await add(store, "c", job_id="job-2")

    async with tailing(store, lines=1, job_id="job-1") as tail:
        await tail.shows("b")
        await add(store, "d", job_id="job-2")
        await add(store, "e", job_id="job-1")
        await tail.shows("b", "e")


async def test_a_shortened_job_id_stands_for_the_one_job_that_has_it() -> None:
    """Several are an error. If there is none yet, the id is taken as it is."""
    store = OpenStore()
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


async def test_more_events_than_one_read_takes_are_all_shown() -> None:
    """It does not wait between the reads."""
    store = OpenStore()
    await add(store, "first")

    async with tailing(store) as tail:
        await tail.shows("first")
        keys = [f"k{number}" for number in range(1_200)]
        await add(store, *keys)
        await tail.shows("first", *keys)


async def test_it_waits_for_a_missing_store() -> None:
    """The remark comes once. Then all events of the store are shown, because they arrived since."""
    store = open_store(STORE)

    async with tailing(store, lines=1) as tail:
        await tail.tells("waiting: there is no database yet")
        await add(store, "a", "b", "c")
        await tail.shows("a", "b", "c")
        await tail.tells("following")
    assert len(tail.notes) == 2


async def test_a_restored_store_continues_at_the_same_place(configured: None) -> None:
    """No event is shown twice, and none that arrived meanwhile is lost."""
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


async def test_a_new_store_is_shown_from_its_beginning(configured: None) -> None:
    """The seqs start again, and all events are shown."""
    store, path = open_store(STORE), Path("kept.db")
    await add(store, "a", "b", "c")

    async with tailing(store, lines=1) as tail:
        await tail.shows("c")
        moved_away(path)
        await tail.tells("no database")
        await add(store, "d", "e")
        await tail.shows("c", "d", "e")


async def test_a_file_that_is_not_a_database_is_an_error_at_the_start(configured: None) -> None:
    """A wait would not help. After the start it waits, because somebody may be copying the file."""
    spoil(Path("kept.db"))

    with pytest.raises(StoreRefused):
        await soon(Tail(open_store(STORE)).follower.run(DeliveryFilter(), lines=1))


async def test_it_waits_for_a_file_that_is_being_copied(configured: None) -> None:
    """This is so after the tail has followed it."""
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
    """Works on the events of the store during a tail."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def route(self, *, handler: bool = True) -> None:
        """Make a work item for each new delivery, or for none."""
        async with self._store.queue() as queue:
            batch = await queue.routing_batch(limit=100_000, max_bytes=10**9)
            new = [NewWork(one.seq, SAVE, claim=False) for one in batch.deliveries] if handler else []
            await queue.route(batch, new, lease=Lease(WorkerId("w"), NOON), now=NOON)

    async def bury(self, *work_ids: int) -> None:
        """Bury work items."""
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
            ends = [Settlement(one.id, SAVE, lease.worker, ended(), WorkState.DONE, NOON) for one in claimed]
            await queue.settle(ends)


async def test_with_a_state_each_event_is_shown_when_it_reaches_it(store: Store) -> None:
    """It is shown once. An event that ends in another state is not shown."""
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


async def test_earlier_events_are_followed_to_their_end(store: Store) -> None:
    """Somebody may wait for it. An event without a handler is done too."""
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
    """An event must match all of them."""
    working = Working(store)

    async with tailing(store, state=DeliveryState.WORKING, job_id="job-2") as tail:
        await add(store, "a")
        await add(store, "b", job_id="job-2")
        await working.route()
        await tail.shows("b")


async def test_new_ones_are_shown_as_they_arrive(store: Store) -> None:
    """No event enters that state later."""
    working = Working(store)
    await add(store, "a")
    await working.route()

    async with tailing(store, state=DeliveryState.NEW) as tail:
        await eventually(lambda: tail.follower.through == 1)
        await add(store, "b")
        await tail.shows("b")


async def test_followed_events_are_shown_after_the_store_is_restored(configured: None) -> None:
    """This includes events that reached the state meanwhile, even if none was shown before."""
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
    store = OpenStore()
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


def events() -> list[EventRow]:
    """Return events as a store lists them."""

    async def read() -> list[EventRow]:
        async with open_store(STORE).reports() as reports:
            return [one async for one in event_rows(reports, DeliveryFilter())]

    fill(lambda store: add_both(store.log))
    return asyncio.run(read())


async def add_both(log: Any) -> None:
    for key in ("a", "b"):
        await appended(log, delivery(key))


def test_the_json_is_that_of_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    """One object per line, written at once."""
    shown(ListForm(as_json=True))(events())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run(receiver.main, ["events", "list", "--json"]) == 0

    assert lines == [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_in_a_pipe_each_is_a_line_of_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    """They may come together or one by one."""
    show = shown(ListForm())
    for one in events():
        show([one])
    lines = capsys.readouterr().out
    assert run(receiver.main, ["events", "list"]) == 0

    assert lines == capsys.readouterr().out


def test_a_database_in_a_missing_folder_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It could not be created, so the exit code is 3."""
    assert run(receiver.main, ["tail", "--store", "sqlite:///nowhere/x.db"]) == 3
    assert f"there is no folder {Path('nowhere').absolute()}" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [("--lines", "-1"), ("--limit", "0"), ("--state", "odd")])
def test_impossible_options_are_wrong_use(wrong: tuple[str, ...]) -> None:
    """The exit code is 2."""
    assert run(receiver.main, ["tail", *wrong]) == 2
