"""Long bodies that lie in files beside the database: how they are read, and what if a file is away."""
# ruff: noqa: ASYNC240 - looks at small files between two steps of a test, where nothing else runs

import hashlib
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.stores.sql.columns_of_bodies import MIN_BYTES
from receiver.stores.sqlite import bodies
from receiver.stores.sqlite.store import SqliteStore
from receiver.stores.sqlite.write_ahead_log import log_path
from tests.doubles import NOON, body_of, delivery
from tests.stores.beside import BESIDE, DEFLATED, LONG, PLAIN, body, codings, move, reclaim, unreadable
from tests.stores.conftest import open_all
from tests.stores.opened import DAY, MUCH, ONE
from tests.stores.rows import execute, select

pytestmark = pytest.mark.usefixtures("files_go_at_once")

FOUND = body_of(data=[{"markdown": "x" * 20_000, "metadata": {"title": "lost and found"}}])


async def test_only_long_bodies_lie_in_files(sqlite_store: SqliteStore, path: Path) -> None:
    """Those that take more than a page of the database. The file belongs to whom the database belongs."""
    async with open_all(sqlite_store) as opened:
        path.chmod(0o640)
        await opened.add(delivery("short", body=b"x" * (MIN_BYTES - 1)), delivery("long", body=b"x" * MIN_BYTES))

        assert codings(path) == {"short": PLAIN, "long": BESIDE}
        [file] = bodies.body_files(path)
        assert (file.stat().st_size, stat.S_IMODE(file.stat().st_mode)) == (MIN_BYTES, 0o640)
        assert (await opened.reports.facts()).bytes == sum(
            one.stat().st_size for one in (path, log_path(path), file)
        )


async def test_everybody_reads_the_whole_body(sqlite_store: SqliteStore) -> None:
    """Listings, exports, workers, the index of words, and the comparison with another arrival."""
    async with open_all(sqlite_store) as opened, sqlite_store.search() as search:
        assert await opened.add(delivery(body=LONG), delivery(body=LONG), delivery(body=LONG + b" ")) == [
            AppendOutcome.ACCEPTED,
            AppendOutcome.DUPLICATE,
            AppendOutcome.CONFLICT,
        ]
        assert await search.index(limit=10, max_bytes=MUCH) == 1

        assert await body(opened) == LONG
        found = [one async for one in opened.reports.iter_deliveries(DeliveryFilter())]
        assert [one.delivery.body for one in found] == [LONG]
        batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)
        assert [one.delivery.body for one in batch.deliveries] == [LONG]
        await opened.route(ONE, claim=False)
        [item] = await opened.claim()
        assert item.source.delivery.body == LONG


async def test_the_check_of_a_store_names_files_that_are_not_there(sqlite_store: SqliteStore, path: Path) -> None:
    """Each once, however many events it has."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG), delivery("b", body=LONG))
        [file] = bodies.body_files(path)
        before = await sqlite_store.health_notes()
        file.unlink()
        await opened.add(delivery("c", body=LONG))

        [note] = set(await sqlite_store.health_notes()) - set(before)
        assert note == f"bodies of events are in {file}, which is not there: put it back"


async def test_a_file_that_is_away_for_a_time_loses_nothing(sqlite_store: SqliteStore, path: Path) -> None:
    """Workers are told why, and others have their bodies. A duplicate is one, and nothing is moved."""
    async with open_all(sqlite_store) as opened, sqlite_store.search() as search:
        await opened.add(delivery("away", body=FOUND))
        [file] = bodies.body_files(path)
        kept = file.read_bytes()
        file.unlink()
        await opened.add(delivery("there", body=LONG))
        reason = f"the body of delivery away cannot be read: {file}: No such file or directory; put the file back"

        batch = await opened.queue.routing_batch(limit=10, max_bytes=MUCH)
        assert [(one.delivery.body, one.unreadable[: len(reason)]) for one in batch.deliveries] == [
            (b"", reason),
            (LONG, ""),
        ]
        await opened.route(ONE, claim=False)
        claimed = [one.source for one in await opened.claim()]
        assert [(one.delivery.body, one.unreadable[: len(reason)]) for one in claimed] == [
            (b"", reason),
            (LONG, ""),
        ]
        assert await opened.add(delivery("new", body=LONG), delivery("away", body=FOUND)) == [
            AppendOutcome.ACCEPTED,
            AppendOutcome.CONFLICT,
        ]
        assert select(path, "SELECT key, detail, body FROM quarantine") == [
            ("away", "a delivery with this key was stored before, and its body cannot be read now", FOUND)
        ]
        assert (await unreadable(opened, "away")).startswith(reason)
        detail = await opened.reports.detail(DeliveryKey("away"))
        assert (detail.headers, len(detail.work)) == (delivery().headers, 1)
        assert await search.index(limit=10, max_bytes=MUCH) == 3
        await opened.maintenance.compress(limit=10)
        assert codings(path) == {"away": BESIDE, "there": DEFLATED, "new": BESIDE}

        file.write_bytes(kept)
        assert await body(opened, "away") == FOUND
        await move(opened)
        await reclaim(opened)
        assert set(codings(path).values()) == {DEFLATED}
        assert bodies.body_files(path) == []
        assert select(path, "SELECT count(*) FROM words WHERE words MATCH 'lost'") == [(1,)]


async def test_the_sender_brings_a_lost_body_again(sqlite_store: SqliteStore, path: Path) -> None:
    """Where the key is the hash of the body, no other body can have it."""
    key = f"sha256:{hashlib.sha256(LONG).hexdigest()}"
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery(key, body=LONG))
        bodies.body_files(path)[0].unlink()

        assert await opened.add(delivery(key, body=LONG)) == [AppendOutcome.DUPLICATE]
        assert await body(opened, key) == LONG
        assert codings(path) == {key: PLAIN}


async def test_a_lost_body_is_imported_again(sqlite_store: SqliteStore, path: Path) -> None:
    """Or pruned, as any other."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG), delivery("b", body=LONG))
        await opened.route()
        bodies.body_files(path)[0].unlink()

        again = [Imported(delivery("a", body=LONG)), Imported(delivery("b"))]
        assert await opened.controls.import_deliveries(again) == [AppendOutcome.DUPLICATE, AppendOutcome.CONFLICT]
        assert await body(opened, "a") == LONG

        await opened.maintenance.prune(PruneRule(NOON + DAY, bodies=True), after=0, limit=9, now=NOON + DAY)
        assert await body(opened, "b") is None


async def test_a_shorter_file_has_lost_what_is_behind_its_end(sqlite_store: SqliteStore, path: Path) -> None:
    """A part of a body is never taken for all of it."""
    async with open_all(sqlite_store) as opened:
        await opened.add(delivery("a", body=LONG), delivery("b", body=LONG))
        os.truncate(bodies.body_files(path)[0], 2 * len(LONG) - 1)

        assert await body(opened, "a") == LONG
        assert (await unreadable(opened, "b")).startswith("the body of delivery b cannot be read: ")
        assert ": the file is too short; " in await unreadable(opened, "b")


async def test_files_lie_beside_the_database_and_not_beside_a_link(tmp_path: Path) -> None:
    """As the log of SQLite does: others may open the database by its own name, or from another folder."""
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "receiver.db", tmp_path / "link.db"
    async with SqliteStore(f"sqlite:///{real}").log():
        link.symlink_to(real)
    async with open_all(SqliteStore(f"sqlite:///{link}")) as opened:
        await opened.add(delivery(body=LONG))

    [file] = bodies.body_files(real)
    assert file.parent == real.parent
    async with SqliteStore(f"sqlite:///{real}").reports() as reports:
        assert (await reports.detail(DeliveryKey("k"))).body == LONG


def test_other_programs_can_read_the_database(made: Path) -> None:
    """Other programs read all tables, and the index too."""
    execute(made, "INSERT INTO bodies (seq, headers, body, coding) VALUES (1, '[]', zeroblob(24), 2)")
    with closing(sqlite3.connect(made)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT length(body) FROM bodies").fetchall() == [(24,)]
