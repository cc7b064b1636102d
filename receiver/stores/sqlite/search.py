"""The index of words, in SQLite's own full text search (FTS5), and how it is filled and asked."""

import json
import sqlite3
from collections.abc import Sequence

from receiver.core.batching import BatchSize
from receiver.core.clock import from_micros
from receiver.core.deliveries import DeliveryFilter
from receiver.core.search import SearchReach, Texts, texts_of
from receiver.errors import ConfigurationError, NoSearchIndex, StoreError
from receiver.stores.sqlite.checkpoints import Checkpointer
from receiver.stores.sqlite.compression import decoded
from receiver.stores.sqlite.database import Database

# The words come in small letters and without accents (search.words), so that every store finds the same.
CREATE = """
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    url, title, error, columnsize = 0, tokenize = "unicode61 remove_diacritics 0"
)
"""

FORGET = """
CREATE TRIGGER IF NOT EXISTS words_forget AFTER DELETE ON bodies BEGIN
    DELETE FROM words WHERE rowid = old.seq;
END
"""

EXISTS = "SELECT count(*) FROM sqlite_master WHERE name = 'words'"

HAS_MODULE = "SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'"

INDEXED = "SELECT value FROM marks WHERE name = 'indexed'"

ADVANCE_INDEXED = "UPDATE marks SET value = ? WHERE name = 'indexed' AND value = ?"

UNINDEXED = "SELECT seq, body, coding FROM bodies WHERE seq > ? ORDER BY seq LIMIT ?"

# What was pruned since it was read must not come in any more, and what was brought in again is in.
INSERT_WORDS = """
INSERT INTO words (rowid, url, title, error)
SELECT b.seq, json_extract(t.value, '$[1]'), json_extract(t.value, '$[2]'), json_extract(t.value, '$[3]')
FROM json_each(?) AS t CROSS JOIN bodies AS b ON b.seq = json_extract(t.value, '$[0]')
WHERE NOT EXISTS (SELECT 1 FROM words AS known WHERE known.rowid = b.seq)
"""

BEHIND = f"""
SELECT
    (SELECT count(*) FROM deliveries WHERE seq > ({INDEXED}) AND pruned_at IS NULL),
    (SELECT received_at FROM deliveries WHERE seq <= ({INDEXED}) ORDER BY seq DESC LIMIT 1)
"""


class SqliteSearch:
    """A SearchIndex. Its commits are not synced: the mark that says how far it is lies beside it."""

    def __init__(self, database: Database, checkpointer: Checkpointer) -> None:
        self._database = database
        self._checkpointer = checkpointer

    async def make(self) -> None:
        """Make the index if there is none. Raises ConfigurationError where SQLite cannot."""

        def write(connection: sqlite3.Connection) -> None:
            require_module(connection)
            with self._database.transaction(connection):
                connection.execute(CREATE)
                connection.execute(FORGET)

        await self._database.call(write)

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, and return how many there were."""

        def write(connection: sqlite3.Connection) -> int:
            (after,) = connection.execute(INDEXED).fetchone()
            rows = _read(connection, after, limit, max_bytes)
            if not rows:
                return 0
            with self._database.transaction(connection):
                if connection.execute(ADVANCE_INDEXED, (rows[-1][0], after)).rowcount:
                    connection.execute(INSERT_WORDS, (_as_json(rows),))
            self._checkpointer.after_commit(connection)
            return len(rows)

        return await self._database.call(write)


def require_module(connection: sqlite3.Connection) -> None:
    """Raise ConfigurationError where SQLite has no full text search."""
    if not connection.execute(HAS_MODULE).fetchone()[0]:
        raise ConfigurationError(
            f"the SQLite of this Python ({sqlite3.sqlite_version}) has no full text search (FTS5): use another "
            "Python, or leave RECEIVER_SEARCH off"
        )


def require_index(connection: sqlite3.Connection, wanted: DeliveryFilter) -> None:
    """Raise an error if a filter needs the index, and there is none or SQLite cannot read it."""
    if wanted.text is None:
        return
    if not connection.execute(EXISTS).fetchone()[0]:
        raise NoSearchIndex
    require_module(connection)


def reach(connection: sqlite3.Connection) -> SearchReach | None:
    """Return how far the index reaches, None without one."""
    if not connection.execute(EXISTS).fetchone()[0]:
        return None
    behind, through = connection.execute(BEHIND).fetchone()
    return SearchReach(behind, None if through is None else from_micros(through))


def restore(connection: sqlite3.Connection, seq: int, body: bytes) -> None:
    """Take a delivery in that has its body again, inside a transaction of the caller's; without an index nothing.

    Also one that the index has not come to: it may be at this very place.
    """
    if connection.execute(EXISTS).fetchone()[0]:
        connection.execute(INSERT_WORDS, (_as_json([(seq, texts_of(body))]),))


def _as_json(rows: Sequence[tuple[int, Texts]]) -> str:
    return json.dumps([(seq, one.url, one.title, one.error) for seq, one in rows if one != Texts()])


def _read(connection: sqlite3.Connection, after: int, limit: int, max_bytes: int) -> list[tuple[int, Texts]]:
    """Read the words of the next bodies, of one at least if there is one."""
    rows: list[tuple[int, Texts]] = []
    taken = BatchSize(limit, max_bytes)
    cursor = connection.execute(UNINDEXED, (after, limit))
    for seq, body, coding in cursor:
        rows.append((seq, _texts(seq, body, coding)))
        taken.add(len(body))
        if taken.is_full:
            break
    cursor.close()
    return rows


def _texts(seq: int, body: bytes, coding: int) -> Texts:
    try:
        return texts_of(decoded(body, coding, key=str(seq)))
    except StoreError:
        return Texts()  # damaged: whoever reads it is told
