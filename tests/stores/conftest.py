import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from receiver.ports import Store
from receiver.stores.memory import MemoryStore
from receiver.stores.sqlite.store import SqliteStore
from receiver.types import Headers
from tests.stores.rows import select


class Refused(NamedTuple):
    """A request in quarantine."""

    reason: str
    key: str | None
    headers: Headers
    body: bytes


class Kept:
    """Looks at what has no port yet."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._path = path

    def quarantined(self) -> list[Refused]:
        """Return the requests in quarantine, the oldest first."""
        if isinstance(self._store, MemoryStore):
            return [Refused(one.reason, one.key, one.headers, one.body) for one in self._store.quarantined]
        return [
            Refused(reason, key, tuple((name, value) for name, value in headers), body)
            for reason, key, headers, body in select(
                self._path, "SELECT reason, key, headers, body FROM quarantine ORDER BY id", as_json="headers"
            )
        ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a store that does not exist yet."""
    return tmp_path / "receiver.db"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, path: Path) -> Store:
    """Every store there is, empty."""
    return MemoryStore() if request.param == "memory" else SqliteStore(f"sqlite:///{path}")


@pytest.fixture
def kept(store: Store, path: Path) -> Kept:
    """What the store holds beyond its ports."""
    return Kept(store, path)


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
