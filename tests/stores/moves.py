"""Every change of a work item's state in a SQLite file, as the database itself saw it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from receiver.core.types import WorkState
from receiver.core.work_states import MOVES
from tests.stores.rows import select

ALLOWED = frozenset((before, after) for (before, _), after in MOVES.items())
"""The pairs of states that the table has."""

_WATCH = """
CREATE TABLE moves (before TEXT, after TEXT, UNIQUE (before, after));
CREATE TRIGGER watch_made AFTER INSERT ON work_items BEGIN
    INSERT INTO moves SELECT NULL, new.state WHERE NOT EXISTS (
        SELECT 1 FROM moves WHERE before IS NULL AND after = new.state
    );
END;
CREATE TRIGGER watch_moved AFTER UPDATE OF state ON work_items BEGIN
    INSERT OR IGNORE INTO moves VALUES (old.state, new.state);
END;
"""


def watch_moves(path: Path) -> None:
    """From now on, let the database note every pair of states: before and after an INSERT or an UPDATE."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_WATCH)


def watched_moves(path: Path) -> set[tuple[WorkState | None, WorkState]]:
    """Return the pairs of states that the database has seen."""
    return {
        (None if before is None else WorkState(before), WorkState(after))
        for before, after in select(path, "SELECT before, after FROM moves")
    }
