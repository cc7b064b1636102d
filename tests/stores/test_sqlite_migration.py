"""A store of an older version is migrated with everything in it, or not at all."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from uuid import UUID

import pytest

from receiver.core.claims import WorkItem
from receiver.core.clock import to_micros
from receiver.core.types import AppendOutcome, AttemptOutcome, DeliveryState, HandlerName, Trigger, WorkState
from receiver.core.work import LOST, Attempt
from receiver.errors import StoreError
from receiver.stores.sqlite import delivery_keys
from receiver.stores.sqlite.files import APPLICATION_ID, prepare
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import (
    AFTER,
    DAY,
    DEAD,
    DONE,
    HELD,
    LEASE,
    ONE,
    RUNNING,
    SECOND,
    SUSPECTS,
    WAITING,
    A,
    B,
    Opened,
    after_noon,
    ended,
)
from tests.stores.rows import MOMENTS, execute, select

MIGRATIONS = resources.files("receiver.stores.sqlite") / "migrations"
LATER, ENDED = to_micros(after_noon(LEASE)), to_micros(NOON - SECOND)

WORK = {
    "new": ("waiting", 0, 0, "delivery", to_micros(NOON), None, None),
    "failed": ("waiting", 2, 0, "delivery", LATER, None, "E: failed"),
    "lost once": ("waiting", 1, 1, "delivery", to_micros(NOON), None, LOST),
    "lost twice": ("waiting", 3, 2, "delivery", to_micros(NOON), None, LOST),
    "running": ("running", 1, 0, "delivery", LATER, A, None),
    "running again": ("running", 2, 0, "delivery", LATER, A, "E: before"),
    "running on a dead worker": ("running", 1, 0, "delivery", ENDED, "gone", None),
    "replayed": ("waiting", 0, 0, "replay", to_micros(NOON), None, None),
    "done": ("done", 1, 0, "delivery", to_micros(NOON), None, None),
    "done after a loss": ("done", 2, 1, "delivery", to_micros(NOON), None, None),
    "dead": ("dead", 8, 0, "delivery", to_micros(NOON), None, "E: given up"),
    "dead of losses": ("dead", 2, 2, "delivery", to_micros(NOON), None, LOST),
}
"""Work items in every state that schema 2 had: state, attempts, lost, trigger, due_at, worker, last_error."""

NEW_MARKS = "SELECT name, value FROM marks WHERE name IN ('store', 'keys_moving', 'keys_place', 'keys_part')"
OTHER_TABLES = ("deliveries", "bodies", "attempts", "quarantine", "handlers", "marks")

IDS = dict(zip(WORK, range(1, len(WORK) + 1), strict=True))


def make_schema(connection: sqlite3.Connection, version: int) -> None:
    """Make an empty database as a version left it."""
    delivery_keys.add_functions(connection)
    for migration in sorted(MIGRATIONS.iterdir(), key=lambda one: one.name)[:version]:
        connection.executescript(migration.read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")


def make_schema_2(path: Path) -> None:
    """Make a database as the second version left it, with a log that is not yet empty."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for name in ("0001_deliveries.sql", "0002_work.sql"):
            connection.executescript((MIGRATIONS / name).read_text(encoding="utf-8"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
        for seq, (key, row) in enumerate(WORK.items(), start=1):
            connection.execute(
                "INSERT INTO deliveries VALUES (?, ?, 'crawl.page', 'job', ?, 1, ?, 4, 2)",
                (seq, key, key, to_micros(NOON)),
            )
            connection.execute('INSERT INTO bodies VALUES (?, \'[["a", "b"]]\', ?)', (seq, b"body"))
            connection.execute(
                "INSERT INTO work_items "
                "(delivery_seq, handler, state, attempts, lost, trigger, due_at, worker, last_error) "
                "VALUES (?, 'one', ?, ?, ?, ?, ?, ?, ?)",
                (seq, *row),
            )
            ran = row[1] - (row[0] == "running")
            connection.executemany(
                "INSERT INTO attempts VALUES (?, ?, 'retry', ?, ?, ?, 'E', 'Traceback', 0)",
                [
                    (seq, number, ENDED, to_micros(NOON), "lost" if number <= row[2] else "failed")
                    for number in range(1, ran + 1)
                ],
            )
        connection.execute("UPDATE marks SET value = ? WHERE name = 'routed'", (len(WORK),))
        connection.commit()


def make_schema_6(path: Path) -> None:
    """Make a database as the last version before schema 7 left it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(Path(__file__).with_name("schema_6.sql").read_text(encoding="utf-8"))


@pytest.fixture
async def migrated(path: Path) -> AsyncIterator[Opened]:
    """A store of schema 2, opened by this version."""
    make_schema_2(path)
    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        yield opened
    assert select(path, "PRAGMA integrity_check") == [("ok",)]
    assert select(path, "PRAGMA foreign_key_check") == []


async def test_a_migrated_database_is_like_a_new_one(migrated: Opened, path: Path, tmp_path: Path) -> None:
    """It has the same tables, indexes and version."""
    new = tmp_path / "new.db"
    prepare(new, create=True)

    schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    assert select(path, schema) == select(new, schema)
    assert select(path, "PRAGMA user_version") == select(new, "PRAGMA user_version")


async def test_every_work_item_is_there_as_it_was(migrated: Opened) -> None:
    """It keeps its id, state, attempts, due time and error."""
    seen = [await migrated.seen(work_id) for work_id in IDS.values()]

    assert [(one.key, one.handler, one.state, one.attempts, one.last_error) for one in seen] == [
        (key, ONE, row[0], row[1], row[6]) for key, row in WORK.items()
    ]
    assert [to_micros(one.due_at) for one in seen if one.due_at is not None] == [
        row[4] for row in WORK.values() if row[0] == "waiting"
    ]
    assert {(one.lane, one.note, one.holds_lane) for one in seen} == {(None, None, False)}
    assert await migrated.queue.switches() == {}


async def test_every_attempt_and_delivery_is_there_as_it_was(migrated: Opened) -> None:
    """The migration does not touch them."""
    for key, row in WORK.items():
        ran = row[1] - (row[0] == "running")
        assert await migrated.history(IDS[key]) == [
            Attempt(
                number=number,
                trigger=Trigger.RETRY,
                started_at=NOON - SECOND,
                ended_at=NOON,
                outcome=AttemptOutcome.LOST if number <= row[2] else AttemptOutcome.FAILED,
                error="E",
                traceback="Traceback",
            )
            for number in range(1, ran + 1)
        ]
    states = {"waiting": DeliveryState.WORKING, "running": DeliveryState.WORKING}
    assert [(one.key, one.state, one.duplicates) for one in reversed(await migrated.listed())] == [
        (key, states.get(row[0], row[0]), 2) for key, row in WORK.items()
    ]


async def test_what_waited_runs_with_its_attempts_counted_as_before(migrated: Opened) -> None:
    """Lost ones do not count. Lost items run alone, since schema 2 did not note whether they had started."""
    usual = await migrated.claim(B)
    alone = await migrated.claim(B, wanted=SUSPECTS)
    late = await migrated.claim(B, now=LEASE)

    def counted(items: list[WorkItem]) -> list[tuple[str, int, int, int, Trigger]]:
        found = [(one.source.delivery.key, one.attempt, one.uncounted, one.deaths, one.trigger) for one in items]
        return sorted(found)

    delivery_, retry, replay = Trigger.DELIVERY, Trigger.RETRY, Trigger.REPLAY
    assert counted(usual) == [
        ("new", 1, 0, 0, delivery_),
        ("replayed", 1, 0, 0, replay),
        ("running on a dead worker", 2, 1, 0, retry),
    ]
    assert counted(alone) == [("lost once", 2, 1, 0, retry), ("lost twice", 4, 2, 0, retry)]
    assert ("failed", 3, 0, 0, retry) in counted(late)
    assert late[0].source.delivery.body == b"body"
    assert await migrated.states(IDS["done"], IDS["dead"]) == [DONE, DEAD]


async def test_what_ran_is_settled_by_its_worker(migrated: Opened) -> None:
    """One worker lived through the update, and the lease of another ends after it."""
    assert await migrated.settle(
        ended(IDS["running"], number=1), ended(IDS["running again"], WAITING, number=2, error="x", due=DAY)
    ) == [True, True]

    assert await migrated.states(IDS["running"], IDS["running again"]) == [DONE, WAITING]


async def test_what_was_dead_can_be_retried(migrated: Opened) -> None:
    """It gets a fresh schedule."""
    assert await migrated.controls.retry([IDS["dead"], IDS["dead of losses"]], now=NOON) == 2

    items = {item.id: item for item in await migrated.claim(B)}

    assert (items[IDS["dead"]].attempt, items[IDS["dead"]].uncounted) == (9, 8)
    assert (items[IDS["dead of losses"]].attempt, items[IDS["dead of losses"]].uncounted) == (3, 2)


async def test_new_work_goes_on_behind_the_old(migrated: Opened) -> None:
    """No id is given twice, and lanes work at once."""
    first, second = await migrated.items(2, HandlerName("two"), lane="l", claim=True)

    assert (first, second) == (len(WORK) + 1, len(WORK) + 2)
    assert await migrated.states(first, second) == [RUNNING, WorkState.QUEUED]
    assert [one.value for one in await migrated.add(delivery("done", body=b"body"))] == ["duplicate"]


async def test_schema_6_keeps_every_column_of_every_work_item(path: Path) -> None:
    """Each moment goes to the column of its state, and is dropped where it meant nothing."""
    make_schema_6(path)
    same = "id, delivery_seq, handler, state, attempts, uncounted, lost, deaths, suspect, trigger, worker, lane"
    same = f"{same}, heads_lane, hold_until, note, last_error"
    before = select(path, f"SELECT {same}, begun FROM work_items")
    due = dict(select(path, "SELECT id, due_at FROM work_items"))
    others = {name: select(path, f"SELECT * FROM {name}") for name in OTHER_TABLES}
    once = select(path, "SELECT handler, key, at, until FROM onces")

    prepare(path, create=True)

    assert select(path, f"SELECT {same}, started FROM work_items") == before
    columns = {WAITING: "due_at", RUNNING: "lease_until", HELD: "recheck_at"}
    for work_id, state, *moments in select(path, f"SELECT id, state, {MOMENTS} FROM work_items"):
        assert moments == [due[work_id] if columns.get(state) == one else None for one in MOMENTS.split(", ")]
    assert {state for _, _, _, state, *_ in before} == set(WorkState)
    last = max(row[0] for row in others["deliveries"])
    others["marks"] = sorted([*others["marks"], ("keyed", last), ("summed", last), *select(path, NEW_MARKS)])
    known = {row[0]: row for row in others["handlers"]}
    names = known.keys() | {handler for (handler,) in select(path, "SELECT handler FROM work_items")}
    others["handlers"] = [known.get(name, (name, "on", 0)) for name in sorted(names)]
    assert {name: select(path, f"SELECT * FROM {name}") for name in OTHER_TABLES} == others
    assert select(path, "SELECT handler, key, asked_at, expires_at FROM once_keys") == once
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


def test_scheduled_runs_are_no_arrivals_after_a_migration(path: Path) -> None:
    """Nobody has sent them, and they are not counted later either."""
    with closing(sqlite3.connect(path)) as connection:
        make_schema(connection, 12)
    execute(
        path,
        "INSERT INTO deliveries (key, type, received_at, size, origin) "
        "VALUES ('a', 'crawl.page', 60000000, 0, 'sender'), ('b', 'schedule.run', 60000000, 0, 'schedule')",
        "INSERT OR REPLACE INTO marks (name, value) VALUES ('summed', 2)",
    )

    prepare(path, create=True)

    assert select(path, "SELECT minute, count FROM arrival_minutes") == [(1, 1)]


async def test_a_store_of_schema_6_goes_on(path: Path, tmp_path: Path) -> None:
    """Its work is claimed, settled, released and expired as before, and new ids follow the last one ever given."""
    make_schema_6(path)
    names = [HandlerName(name) for name in ("waiting", "lost", "failed", "retried", "replayed", "queued")]
    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        claimed = [item.handler for item in await opened.claim(B, names, now=SECOND)]
        assert sorted(claimed) == ["queued", "replayed", "retried", "waiting"]
        assert await opened.claimed(B, [HandlerName("lost")], wanted=SUSPECTS) == [21]
        assert await opened.settle(ended(5), ended(20, worker=B)) == [True, True]
        held = await opened.queue.held([HandlerName("held"), HandlerName("rechecked")], now=AFTER, limit=9)
        assert [one.id for one in held] == [4, 22]
        assert await opened.claimed(B, [HandlerName("running-in-lane")], now=LEASE) == [13]
        assert await opened.items(1) == [41]
        await opened.check_lanes()

    prepare(tmp_path / "new.db", create=True)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    assert select(path, schema) == select(tmp_path / "new.db", schema)


async def test_keys_of_schema_7_are_found(path: Path) -> None:
    """Two migrations make the index of them."""
    keys = [str(UUID(int=number << 40)) for number in range(3)] + ["sha256:" + "ab" * 32, "text"]
    with closing(sqlite3.connect(path)) as connection:
        make_schema(connection, 7)
        for key in keys:
            row = (key, to_micros(NOON))
            connection.execute("INSERT INTO deliveries (key, type, received_at, size) VALUES (?, 'x', ?, 1)", row)
        connection.commit()

    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        again = await opened.add(*[delivery(key) for key in keys])

    assert set(again) == {AppendOutcome.CONFLICT}  # none of them has its body
    assert select(path, "SELECT count(*) FROM deliveries") == [(len(keys),)]


@pytest.mark.parametrize("version", [4, 5])
async def test_once_keys_stay_used(path: Path, tmp_path: Path, version: int) -> None:
    """Before schema 6 no key expired. New keys can."""
    with closing(sqlite3.connect(path)) as connection:
        make_schema(connection, version)
        connection.execute("INSERT INTO onces VALUES ('one', 'mail', ?)", (to_micros(NOON),))
        connection.commit()

    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        assert not await opened.queue.once(ONE, "mail", now=after_noon(DAY), until=after_noon(2 * DAY))
        assert await opened.queue.once(ONE, "job", now=NOON, until=after_noon(SECOND))
        assert await opened.queue.once(ONE, "job", now=after_noon(SECOND))
        assert await opened.maintenance.forget(after_noon(SECOND), limit=9) == 1

    prepare(tmp_path / "new.db", create=True)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    assert select(path, schema) == select(tmp_path / "new.db", schema)
    assert select(path, "PRAGMA integrity_check") == [("ok",)]


async def test_the_index_of_keys_gets_shorter(path: Path) -> None:
    """Before schema 15 it had whole keys. All are found afterwards, also two that have the same ends."""
    keys = [f"01234567-000{number}-4000-8000-000089abcdef" for number in range(2)]
    keys += [
        "sha256:" + "0a00" * 16,
        "sha256:" + "ff" * 32,
        "\u00e9 no UUID",
        "00000000-0000-0000-0000-000000000000",
    ]
    with closing(sqlite3.connect(path)) as connection:
        make_schema(connection, 14)
        for seq, key in enumerate(keys, start=1):
            row = (seq, key, to_micros(NOON))
            connection.execute(
                "INSERT INTO deliveries (seq, key, type, received_at, size) VALUES (?, ?, 'crawl.page', ?, 1)", row
            )
        connection.execute("INSERT INTO delivery_keys SELECT packed_key(key), seq FROM deliveries")
        connection.execute("UPDATE marks SET value = ? WHERE name = 'keyed'", (len(keys),))
        connection.commit()

    prepare(path, create=True)

    expected = sorted((str(delivery_keys.index_key(key)), seq) for seq, key in enumerate(keys, start=1))
    assert sorted((str(key), seq) for key, seq in select(path, "SELECT * FROM delivery_keys")) == expected
    async with open_all(SqliteStore(f"sqlite:///{path}")) as opened:
        assert [await opened.reports.resolve(key) for key in keys] == keys


async def test_a_migration_that_fails_changes_nothing(path: Path, sqlite_store: SqliteStore) -> None:
    """Here its last table exists already. The old version can go on with the file."""
    make_schema_2(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE onces (x)")
    dump = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
    before = select(path, dump), select(path, "SELECT * FROM work_items")

    with pytest.raises(StoreError, match="onces"):
        async with sqlite_store.queue():
            pass

    assert (select(path, dump), select(path, "SELECT * FROM work_items")) == before
    assert select(path, "PRAGMA user_version") == [(2,)]
