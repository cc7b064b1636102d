"""Stores to copy, and what is in them."""

from pathlib import Path

from receiver.cli.main import receiver, run
from tests.cli.kept import DEAD, DONE, HELD, QUEUED, SAVE, SKIPPED, WAITING, fill
from tests.stores.outside import Tables
from tests.stores.rows import execute, select

KEPT, COPY = Path("kept.db"), Path("copy.db")
TO = "sqlite:///copy.db"


def invoke(*args: str) -> int:
    """Run a command and return its exit code."""
    return run(receiver.main, list(args))


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    """Return the rows of a table."""
    return select(path, f"SELECT * FROM {table} ORDER BY 1, 2")


def fill_store() -> None:
    """Put work in every state that rests into the store."""
    fill(*(lambda store, state=state: store.item(state) for state in (DONE, DEAD, WAITING, QUEUED, HELD, SKIPPED)))
    assert invoke("handlers", "pause", SAVE) == 0  # this is recorded
    execute(KEPT, "UPDATE work_items SET action_id = 1 WHERE id = 2")


COLUMNS = {
    "deliveries": "seq, key, type, job_id, webhook_id, success, received_at, size, duplicates, origin, pruned_at",
    "bodies": "seq, headers, body, coding",
    "quarantine": "id, received_at, reason, detail, key, headers, body",
    "work_items": "id, delivery_seq, handler, state, attempts, trigger, due_at, recheck_at, lane, heads_lane",
    "attempts": "work_id, number, trigger, started_at, ended_at, outcome, error, traceback, overdue",
    "handlers": "name, switch, paced_until",
    "once_keys": "handler, key, asked_at, expires_at",
}


def contents(tables: Tables) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of every table, equal for equal stores of any kind."""
    return {
        table: list(tables.select(f"SELECT {columns} FROM {table} ORDER BY 1, 2"))
        for table, columns in COLUMNS.items()
    }
