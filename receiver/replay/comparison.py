"""Comparison of a replay's results with those of an earlier replay."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from enum import StrEnum
from typing import Self

from receiver.replay.outcomes import RunResult


class Change(StrEnum):
    """How a result compares with that of the same handler for the same delivery in an earlier replay."""

    SAME = "same"
    CHANGED = "changed"
    NEWLY_FAILING = "newly failing"
    NEWLY_PASSING = "newly passing"
    ADDED = "added"
    """The earlier replay did not have it."""
    MISSING = "missing"
    """Only the earlier replay had it."""


class Earlier:
    """The results of an earlier replay, in a temporary database: replays may be long, and in any order."""

    def __init__(self, results: Iterable[RunResult]) -> None:
        """Take in all results; of several for the same handler and delivery the last one counts."""
        # An empty name makes SQLite use a temporary file (SQLite manual, "In-Memory Databases").
        self._rows = sqlite3.connect("", isolation_level=None)
        self._rows.execute("PRAGMA synchronous = OFF")
        self._rows.execute(
            "CREATE TABLE results (id TEXT, handler TEXT, failed INTEGER, text TEXT, seen INTEGER DEFAULT 0, "
            "PRIMARY KEY (id, handler)) WITHOUT ROWID"
        )
        self._rows.execute("BEGIN")
        try:
            self._rows.executemany(
                "INSERT INTO results (id, handler, failed, text) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET failed = excluded.failed, text = excluded.text",
                ((one.id, one.handler, one.failed, one.text) for one in results),
            )
        except BaseException:
            self._rows.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def compare(self, result: RunResult) -> tuple[Change, str | None]:
        """Return how this result compares, and the text of the earlier one; None if there was none."""
        found = self._rows.execute(
            "UPDATE results SET seen = 1 WHERE id = ? AND handler = ? RETURNING failed, text",
            (result.id, result.handler),
        ).fetchone()
        if found is None:
            return Change.ADDED, None
        failed, text = bool(found[0]), str(found[1])
        if result.failed != failed:
            return (Change.NEWLY_FAILING if result.failed else Change.NEWLY_PASSING), text
        return (Change.SAME if result.text == text else Change.CHANGED), text

    def missing(self) -> int:
        """Return how many earlier results have not been compared with."""
        with closing(self._rows.execute("SELECT count(*) FROM results WHERE NOT seen")) as found:
            return int(found.fetchone()[0])
