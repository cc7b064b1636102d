"""What handlers returned or raised in a replay, kept in a file and compared with another replay's."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, Self

from pydantic_core import to_json

from receiver.errors import ConfigurationError
from receiver.replay.here import Ran
from receiver.types import AttemptOutcome
from receiver.wire import NotJson, load_json

FORMAT = "receiver-outcomes"
VERSION = 1
_LONGEST_VALUE = 100_000
_LONGEST_LINE = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one handler fared with one delivery, in a form that can be kept.

    `value` is the JSON text of what it returned, or of its `repr` where that is no JSON; `error` is None for one
    that returned.
    """

    key: str
    type: str
    handler: str
    outcome: str
    value: str | None
    error: str | None
    seconds: float

    @classmethod
    def of(cls, ran: Ran) -> Self:
        """Return what is kept of a call."""
        attempt, delivery = ran.attempt, ran.stored.delivery
        succeeded = attempt.outcome is AttemptOutcome.SUCCEEDED
        return cls(
            key=delivery.key,
            type=delivery.type,
            handler=ran.handler.name,
            outcome=attempt.outcome.value,
            value=_as_json(ran.value) if succeeded else None,
            error=None if succeeded else attempt.error or attempt.outcome.value,
            seconds=(attempt.ended_at - (attempt.started_at or attempt.ended_at)).total_seconds(),
        )

    @property
    def failed(self) -> bool:
        """Whether it raised, or was too slow."""
        return self.error is not None

    @property
    def shown(self) -> str:
        """What it came to, in one text: equal for equal outcomes."""
        return f"raised {self.error}" if self.error is not None else f"returned {self.value}"

    def line(self) -> bytes:
        """Return it as a line of NDJSON."""
        fields = {
            "key": self.key,
            "type": self.type,
            "handler": self.handler,
            "outcome": self.outcome,
            "value": None if self.value is None else json.loads(self.value),
            "error": self.error,
            "seconds": round(self.seconds, 6),
        }
        return json.dumps(fields, ensure_ascii=True).encode() + b"\n"


def header() -> bytes:
    """Return the first line of a file of outcomes."""
    return json.dumps({"format": FORMAT, "version": VERSION}).encode() + b"\n"


def _as_json(value: object) -> str:
    """Return a returned value as JSON text that is the same in every run."""
    if value is None:
        return "null"
    try:
        text = to_json(value, fallback=_shown).decode()
    except ValueError:  # a lone surrogate, or something that contains itself
        text = json.dumps(_shown(value))
    if len(text) > _LONGEST_VALUE:
        text = json.dumps(text[:_LONGEST_VALUE] + f"... {len(text):,} characters")
    return text


def _shown(value: object) -> str:
    """Return a `repr` without addresses, which differ from run to run."""
    kind = type(value)
    if kind.__repr__ is object.__repr__:
        return f"<{kind.__module__}.{kind.__qualname__} object>"
    return ascii(value)


class Change(StrEnum):
    """How an outcome compares with the same handler's on the same delivery in an earlier run."""

    SAME = "same"
    CHANGED = "changed"
    NEWLY_FAILING = "newly failing"
    NEWLY_PASSING = "newly passing"
    ADDED = "added"
    """The earlier run did not have it."""
    MISSING = "missing"
    """Only the earlier run had it."""


class Earlier:
    """The outcomes of an earlier replay, in a temporary database: two runs may be long, and in any order."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        """Read a whole file; raises ConfigurationError with the line for what is none."""
        self._rows = sqlite3.connect(
            "", isolation_level=None
        )  # a temporary file (SQLite manual, In-Memory Databases)
        self._rows.execute("PRAGMA synchronous = OFF")
        self._rows.execute(
            "CREATE TABLE outcomes (key TEXT, handler TEXT, failed INTEGER, shown TEXT, seen INTEGER DEFAULT 0, "
            "PRIMARY KEY (key, handler)) WITHOUT ROWID"
        )
        self._rows.execute("BEGIN")
        self._rows.executemany(
            "INSERT INTO outcomes (key, handler, failed, shown) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET failed = excluded.failed, shown = excluded.shown",
            ((one.key, one.handler, one.failed, one.shown) for one in _read(file, name)),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def compare(self, outcome: Outcome) -> tuple[Change, str | None]:
        """Return how this outcome compares, and what it was before; None if there was none."""
        found = self._rows.execute(
            "UPDATE outcomes SET seen = 1 WHERE key = ? AND handler = ? RETURNING failed, shown",
            (outcome.key, outcome.handler),
        ).fetchone()
        if found is None:
            return Change.ADDED, None
        failed, shown = bool(found[0]), str(found[1])
        if outcome.failed != failed:
            return (Change.NEWLY_FAILING if outcome.failed else Change.NEWLY_PASSING), shown
        return (Change.SAME if outcome.shown == shown else Change.CHANGED), shown

    def missing(self) -> int:
        """Return how many outcomes of the earlier run have not been compared with."""
        with closing(self._rows.execute("SELECT count(*) FROM outcomes WHERE NOT seen")) as found:
            return int(found.fetchone()[0])


def _read(file: IO[bytes], name: str) -> Iterator[Outcome]:
    _check_header(file.readline(_LONGEST_LINE), name)
    number = 1
    while line := file.readline(_LONGEST_LINE):
        number += 1
        try:
            yield _outcome(load_json(line))
        except (NotJson, KeyError, TypeError, ValueError):
            raise ConfigurationError(f"{name}, line {number}: this is no outcome of a replay") from None


def _check_header(line: bytes, name: str) -> None:
    try:
        found = load_json(line)
        kind, version = found["format"], found["version"]
    except (NotJson, KeyError, TypeError):
        kind, version = None, None
    if kind != FORMAT:
        raise ConfigurationError(f"{name} has no outcomes of a replay; `receiver replay --save FILE` writes them")
    if version != VERSION:
        raise ConfigurationError(
            f"{name} was written by another version of this program: format {version}, this one reads {VERSION}"
        )


def _outcome(fields: Any) -> Outcome:
    error = fields["error"]
    return Outcome(
        key=str(fields["key"]),
        type=str(fields["type"]),
        handler=str(fields["handler"]),
        outcome=str(fields["outcome"]),
        value=None if error is not None else to_json(fields["value"]).decode(),
        error=None if error is None else str(error),
        seconds=float(fields["seconds"]),
    )
