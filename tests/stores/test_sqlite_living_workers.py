"""A SQLite store knows which workers are certainly dead: their locks are gone."""

import sqlite3
import subprocess
import sys
from contextlib import AsyncExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.activity import WorkerSign
from receiver.core.claims import ClaimLimits
from receiver.core.clock import SystemClock
from receiver.core.types import WorkerId
from receiver.errors import StoreError
from receiver.stores.sqlite.database import Database
from receiver.stores.sqlite.locks import LivingWorkers
from receiver.stores.sqlite.reports import SqliteReports
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON
from tests.stores.conftest import open_all
from tests.stores.opened import MUCH, RUNNING, SUSPECTS, A, B, C, Opened


def sign_of(worker: WorkerId) -> WorkerSign:
    """Return how a worker shows itself."""
    return WorkerSign(worker, "host", 41, "1.2.3", NOON)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems may not have these locks")


@pytest.fixture
def store(sqlite_store: SqliteStore) -> SqliteStore:
    """The only kind of store that this is about."""
    return sqlite_store


async def test_the_leases_of_a_worker_whose_queue_was_closed_end_at_once(
    store: SqliteStore, opened: Opened
) -> None:
    """As after the end of its process, however it ended. What had started counts a death."""
    async with AsyncExitStack() as stack:
        dying = await stack.enter_async_context(store.queue())
        await dying.enlist(A)
        await opened.queue.enlist(B)
        started, waiting = await opened.items(1, claim=True, starts=True) + await opened.items(1, claim=True)
        assert await opened.queue.expire_dead(B, steady=NOON) == []

    assert await opened.queue.expire_dead(B, steady=NOON) == [A]

    assert await opened.claimed(C) == [waiting]
    (item,) = await opened.claim(C, wanted=SUSPECTS)
    assert (item.id, item.deaths) == (started, 1)


async def test_living_workers_keep_their_leases(opened: Opened) -> None:
    """Both that of the worker that asks and those of others, with a connection of their own."""
    await opened.queue.enlist(A)
    await opened.other.enlist(B)
    ids = await opened.items(1, worker=A, claim=True) + await opened.items(1, worker=B, claim=True)

    assert await opened.queue.expire_dead(A, steady=NOON) == []
    assert await opened.other.expire_dead(B, steady=NOON) == []

    assert await opened.states(*ids) == [RUNNING, RUNNING]


async def test_a_worker_that_asks_is_alive(opened: Opened) -> None:
    """Whatever the locks say."""
    await opened.items(1, claim=True)

    assert await opened.queue.expire_dead(A, steady=NOON) == []


async def test_a_dead_worker_without_leases_is_not_named(opened: Opened) -> None:
    """It has nothing that somebody could take over."""
    await opened.items(1, claim=True)
    assert await opened.queue.expire_dead(B, steady=NOON) == [A]
    assert await opened.queue.expire_dead(B, steady=NOON) == []
    await opened.claim(B, wanted=ClaimLimits(0, MUCH))

    assert await opened.queue.expire_dead(B, steady=NOON) == []


async def test_only_the_owner_can_read_the_file(opened: Opened, path: Path) -> None:
    """It is empty, as the locks are not in it."""
    await opened.queue.enlist(A)

    found = path.with_name("receiver.db-locks").stat()
    assert (found.st_mode & 0o777, found.st_size) == (0o600, 0)


def test_a_file_that_cannot_be_opened_is_an_error_of_the_store(tmp_path: Path) -> None:
    """A worker without a lock would seem to be dead, so it does not go on."""
    living = LivingWorkers(tmp_path / "no folder" / "receiver.db")

    with pytest.raises(StoreError, match="No such file"):
        living.enlist(WorkerId("w"))
    with pytest.raises(StoreError, match="No such file"):
        living.is_dead(WorkerId("w"))


async def test_a_deleted_file_of_locks_kills_nobody(opened: Opened, path: Path) -> None:
    """Each worker makes sure of its lock whenever it looks for dead ones. A new worker finds the new file."""
    await opened.queue.enlist(A)
    (item,) = await opened.items(1, worker=A, claim=True, starts=True)
    path.with_name("receiver.db-locks").unlink()

    assert await opened.queue.expire_dead(A, steady=NOON) == []
    assert await opened.other.expire_dead(B, steady=NOON) == []
    assert await opened.states(item) == [RUNNING]


async def test_workers_have_time_to_take_their_locks_again_in_a_new_file(opened: Opened, path: Path) -> None:
    """The first that looks would take all others for dead."""
    await opened.queue.enlist(A)
    await opened.other.enlist(B)
    (item,) = await opened.items(1, worker=B, claim=True, starts=True)
    path.with_name("receiver.db-locks").unlink()

    assert await opened.queue.expire_dead(A, steady=NOON) == []
    assert await opened.other.expire_dead(B, steady=NOON + timedelta(seconds=1)) == []
    assert await opened.queue.expire_dead(A, steady=NOON + timedelta(minutes=1)) == []
    assert await opened.states(item) == [RUNNING]


async def test_a_worker_that_starts_after_the_file_was_deleted_waits_too(
    store: SqliteStore, opened: Opened, path: Path
) -> None:
    """It never saw the old file, and somebody else has made the new one meanwhile."""
    await opened.queue.enlist(A)
    assert await opened.queue.expire_dead(A, steady=NOON) == []
    (item,) = await opened.items(1, worker=A, claim=True, starts=True)
    locks = path.with_name("receiver.db-locks")
    locks.unlink()
    locks.touch(0o600)

    async with store.queue() as new, store.queue() as newer:
        assert await new.expire_dead(B, steady=NOON + timedelta(seconds=0.1)) == []
        assert await newer.expire_dead(C, steady=NOON + timedelta(seconds=0.2)) == []
        assert await opened.queue.expire_dead(A, steady=NOON + timedelta(seconds=1)) == []
        assert await new.expire_dead(B, steady=NOON + timedelta(seconds=6)) == []
        assert await newer.expire_dead(C, steady=NOON + timedelta(seconds=6)) == []
    assert await opened.states(item) == [RUNNING]


async def test_a_worker_that_died_with_the_file_is_found_after_some_seconds(
    store: SqliteStore, opened: Opened, path: Path
) -> None:
    """Nobody takes a lock for it in the new file."""
    async with store.queue() as dying:
        await dying.enlist(A)
        assert await dying.expire_dead(A, steady=NOON) == []
        await opened.items(1, worker=A, claim=True)
    path.with_name("receiver.db-locks").unlink()

    assert await opened.queue.expire_dead(B, steady=NOON + timedelta(seconds=1)) == []
    assert await opened.queue.expire_dead(B, steady=NOON + timedelta(seconds=7)) == [A]


async def test_a_new_start_of_the_machine_delays_nothing(store: SqliteStore, opened: Opened, path: Path) -> None:
    """The clock of leases begins anew with it, so what it says about the new file lies ahead."""
    async with store.queue() as dying:
        await dying.enlist(A)
        assert await dying.expire_dead(A, steady=NOON) == []
        await opened.items(1, worker=A, claim=True)
    path.with_name("receiver.db-locks").unlink()
    assert await opened.queue.expire_dead(B, steady=NOON + timedelta(days=9)) == []

    assert await opened.other.expire_dead(C, steady=NOON) == [A]


async def shown_dead(opened: Opened) -> dict[str, bool]:
    """Return which workers are in the list, and which of them are dead."""
    return {one.sign.name: one.is_dead for one in await opened.reports.workers()}


async def test_the_list_of_workers_tells_at_once_who_is_dead(store: SqliteStore, opened: Opened) -> None:
    """Those that live have the locks that they took with their first sign."""
    async with store.queue() as dying:
        await dying.sign_on(sign_of(A), now=NOON)
        await opened.queue.sign_on(sign_of(B), now=NOON)
        await opened.queue.expire_dead(B, steady=NOON)
        assert await shown_dead(opened) == {A: False, B: False}

    assert await shown_dead(opened) == {A: True, B: False}
    [dead, living] = await opened.reports.workers()
    assert (dead.is_late(NOON), dead.suspicion) == (True, "it was killed")
    assert (living.is_late(NOON), living.suspicion) == (False, "it hangs, or was killed")


async def test_nobody_is_shown_as_dead_while_locks_may_be_missing(
    store: SqliteStore, opened: Opened, path: Path
) -> None:
    """Without the file, with one that no worker knows yet, and in the first seconds of a new one."""
    now = SystemClock().steady()
    await opened.queue.sign_on(sign_of(A), now=NOON)
    await opened.queue.expire_dead(A, steady=now)
    locks = path.with_name("receiver.db-locks")
    locks.unlink()
    assert await shown_dead(opened) == {A: False}
    assert not locks.exists()
    locks.touch(0o600)
    assert await shown_dead(opened) == {A: False}

    async with store.queue() as new:
        await new.expire_dead(B, steady=now)
        assert await shown_dead(opened) == {A: False}
        await new.expire_dead(B, steady=now + timedelta(days=1))


async def test_a_worker_that_signs_off_meanwhile_is_not_shown_as_dead(opened: Opened, path: Path) -> None:
    """It releases its lock behind that, while the list is read."""

    class SigningOff(LivingWorkers):
        def is_dead(self, worker: WorkerId) -> bool:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DELETE FROM workers WHERE name = ?", (worker,))
            return True

    await opened.queue.sign_on(sign_of(A), now=NOON)
    await opened.queue.expire_dead(A, steady=NOON)
    async with Database(path, read_only=True) as database:
        assert await SqliteReports(database, path, SigningOff(path, asks=True)).workers() == []


WORKER = """
import os, signal, sys
from pathlib import Path
from receiver.stores.sqlite.locks import LivingWorkers

living = LivingWorkers(Path(sys.argv[1]))
living.enlist("a")
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_lives_longer_does_not_keep_the_lock_of_its_worker(path: Path) -> None:
    """A handler may have forked it, as `multiprocessing` does on Linux before Python 3.14."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"forked\n"
        worker.wait()

        assert LivingWorkers(path).is_dead(WorkerId("a"))


async def test_a_handler_may_change_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker that runs it lives, and neither it nor maintenance leaves anything elsewhere."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    monkeypatch.chdir(home)
    store, other = SqliteStore("sqlite:///receiver.db"), SqliteStore(f"sqlite:///{home}/receiver.db")
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(store.queue())
        opened = await stack.enter_async_context(open_all(other))
        await queue.enlist(A)
        (work_id,) = await opened.items(1, worker=A, claim=True, starts=True)

        monkeypatch.chdir(elsewhere)

        assert await queue.expire_dead(A, steady=NOON) == []
        assert await opened.queue.expire_dead(B, steady=NOON) == []
        assert await opened.states(work_id) == [RUNNING]
        async with store.maintenance() as maintenance:
            await maintenance.reclaim(MUCH)
    assert list(elsewhere.iterdir()) == []


async def test_a_database_with_two_names_has_one_file_of_locks(tmp_path: Path) -> None:
    """A worker that uses a link to the database is seen by those that use the database."""
    (tmp_path / "linked.db").symlink_to(tmp_path / "real.db")
    real, linked = SqliteStore(f"sqlite:///{tmp_path}/real.db"), SqliteStore(f"sqlite:///{tmp_path}/linked.db")
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_all(real))
        queue = await stack.enter_async_context(linked.queue())
        await queue.enlist(A)
        (work_id,) = await opened.items(1, worker=A, claim=True, starts=True)

        assert await opened.queue.expire_dead(B, steady=NOON) == []
        assert await opened.states(work_id) == [RUNNING]
