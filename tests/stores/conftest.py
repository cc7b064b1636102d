import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import NamedTuple

import pytest

from receiver.core.ports.log import DeliveryLog
from receiver.core.ports.store import Store
from receiver.core.types import Headers
from receiver.stores.memory import MemoryStore
from receiver.stores.postgres.store import PostgresStore
from receiver.stores.sql.columns_of_bodies import headers_of
from receiver.stores.sqlite import bodies, system_files
from receiver.stores.sqlite.store import SqliteStore
from receiver.stores.writer_process.process import open_writer_process
from tests.stores.beside import kind_of_file
from tests.stores.moves import ALLOWED, WATCH_SQLITE, watched_moves
from tests.stores.opened import Opened
from tests.stores.outside import PostgresTables, SqliteTables, Tables


class QuarantineRow(NamedTuple):
    """A request in quarantine."""

    reason: str
    key: str | None
    headers: Headers
    body: bytes


class Kept:
    """Reads what no port shows."""

    def __init__(self, store: Store, tables: Tables | None) -> None:
        self._store = store
        self._tables = tables

    def quarantined(self) -> list[QuarantineRow]:
        """Return the requests in quarantine, the oldest first."""
        if isinstance(self._store, MemoryStore):
            kept = self._store.state.quarantined.values()
            return [QuarantineRow(one.reason, one.key, one.headers, one.body) for one in kept]
        assert self._tables is not None
        return [
            QuarantineRow(reason, key, headers_of(headers), body)
            for reason, key, headers, body in self._tables.select(
                "SELECT reason, key, headers, body FROM quarantine ORDER BY id"
            )
        ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a store that does not exist yet."""
    return tmp_path / "receiver.db"


KINDS = ("memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres))
"""Each kind of store."""


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, path: Path) -> Store:
    """Each kind of store, empty."""
    match request.param:
        case "memory":
            return MemoryStore()
        case "sqlite":
            return SqliteStore(f"sqlite:///{path}")
        case "writer process":
            return StoreWithWriterProcess(f"sqlite:///{path}")
        case _:
            return PostgresStore(request.getfixturevalue("empty_postgres_url"))


class StoreWithWriterProcess(SqliteStore):
    """A SQLite store to which another process appends."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._url = url

    @asynccontextmanager
    async def log(self) -> AsyncIterator[DeliveryLog]:  # type: ignore[override]  # it takes no whole batches
        """Open for appending."""
        async with open_writer_process(self._url, log_level="INFO", json_logs=False) as log:
            yield log


@pytest.fixture
def tables(store: Store, path: Path, request: pytest.FixtureRequest) -> Tables | None:
    """The tables of the store, as somebody with the database's own tool sees them. None where it has none."""
    if isinstance(store, SqliteStore):
        return SqliteTables(path)
    if isinstance(store, PostgresStore):
        return PostgresTables(request.getfixturevalue("empty_postgres_url"))
    return None


@pytest.fixture
def kept(store: Store, tables: Tables | None) -> Kept:
    """What the store holds beyond its ports."""
    return Kept(store, tables)


@pytest.fixture
async def opened(store: Store, tables: Tables | None) -> AsyncIterator[Opened]:
    """The store, open for everything. After each test its lanes and its changes of states have to be sound."""
    async with open_all(store) as opened:
        if isinstance(tables, SqliteTables):
            tables.run(WATCH_SQLITE)
        yield opened
        await opened.check_lanes()
    if tables is not None:
        assert tables.select(HEADLESS) == []
        assert watched_moves(tables) <= ALLOWED


HEADLESS = """
SELECT id, handler, lane FROM work_items AS q WHERE state = 'queued' AND NOT EXISTS (
    SELECT 1 FROM work_items AS h WHERE h.handler = q.handler AND h.lane = q.lane AND h.heads_lane = 1
)
"""
"""What is queued behind nothing, and would wait for ever."""


@asynccontextmanager
async def open_all(store: Store) -> AsyncIterator[Opened]:
    """Open every face of a store."""
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(store.log())
        queue = await stack.enter_async_context(store.queue())
        other = await stack.enter_async_context(store.queue())
        controls = await stack.enter_async_context(store.controls())
        maintenance = await stack.enter_async_context(store.maintenance())
        yield Opened(log, queue, other, controls, await stack.enter_async_context(store.reports()), maintenance)


@pytest.fixture
def sqlite_store(path: Path) -> SqliteStore:
    """A store in a file that does not exist yet."""
    return SqliteStore(f"sqlite:///{path}")


@pytest.fixture
async def made(sqlite_store: SqliteStore, path: Path) -> Path:
    """The file of a store that has been made and closed."""
    async with sqlite_store.log():
        pass
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return path


@pytest.fixture
def files_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of bodies go as soon as nothing is in them."""
    monkeypatch.setattr(bodies, "UNUSED_SECONDS", 0.0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The syncs of files and of folders, and what a test adds to them, in their order."""
    made: list[str] = []
    real_sync, real_folder = system_files.sync, system_files.sync_folder

    def sync(descriptor: int) -> None:
        real_sync(descriptor)
        made.append(f"sync {kind_of_file(Path(f'/proc/self/fd/{descriptor}').readlink())}")

    def sync_folder(folder: Path) -> None:
        real_folder(folder)
        made.append("sync folder")

    monkeypatch.setattr(bodies, "sync", sync)
    monkeypatch.setattr(system_files, "sync", sync)
    monkeypatch.setattr(bodies, "sync_folder", sync_folder)
    return made
