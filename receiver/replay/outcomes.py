"""What handlers returned or raised in a replay, kept in a file and compared with another replay's."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, Self

from pydantic_core import to_json

from receiver.core.lenient_json import NotJson, load_json
from receiver.core.types import AttemptOutcome
from receiver.errors import ConfigurationError
from receiver.replay.local import LocalRun

FORMAT = "receiver-outcomes"
VERSION = 1
MAX_VALUE_LENGTH = 100_000
MAX_LINE_BYTES = 8 * 1024 * 1024
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""In what objects call themselves; it differs from run to run."""


@dataclass(frozen=True, slots=True)
class RunResult:
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
    def of(cls, ran: LocalRun) -> Self:
        """Return what is kept of a call."""
        attempt, delivery = ran.attempt, ran.stored.delivery
        succeeded = attempt.outcome is AttemptOutcome.SUCCEEDED
        return cls(
            key=delivery.key,
            type=delivery.type,
            handler=ran.handler.name,
            outcome=attempt.outcome.value,
            value=_as_json(ran.value) if succeeded else None,
            error=None if succeeded else _ADDRESS.sub("", attempt.error or attempt.outcome.value),
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

    def line(self, **more: str | None) -> str:
        """Return it as a line of NDJSON, in ASCII, with more fields if they are given."""
        fields = {
            "key": self.key,
            "type": self.type,
            "handler": self.handler,
            "outcome": self.outcome,
            "error": self.error,
            "seconds": round(self.seconds, 6),
            **more,
        }
        return f'{json.dumps(fields)[:-1]}, "value": {self.value or "null"}}}'


def _as_json(value: object) -> str:
    """Return a returned value as JSON text that is the same in every run."""
    if value is None:
        return "null"
    try:
        text = to_json(_ordered(value), fallback=_shown, inf_nan_mode="strings", ensure_ascii=True).decode()
    except (Exception, SystemExit):  # a lone surrogate, something that contains itself, or code of its class
        text = json.dumps(_shown(value))
    if len(text) > MAX_VALUE_LENGTH:
        text = json.dumps(text[:MAX_VALUE_LENGTH] + f"... {len(text):,} characters")
    return text


def _ordered(value: object) -> object:
    """Return a value with the sets in it as lists: the order of a set differs from run to run."""
    match value:
        case set() | frozenset():
            return sorted(map(_ordered, value), key=_shown)
        case dict():
            return {key: _ordered(item) for key, item in value.items()}
        case list() | tuple():
            return [_ordered(item) for item in value]
        case _:
            return value


def _shown(value: object) -> str:
    """Return a `repr` that is the same in every run."""
    try:
        return _ADDRESS.sub("", ascii(value))
    except (Exception, SystemExit):
        return f"<{type(value).__module__}.{type(value).__qualname__} object>"


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
        # No name stands for a temporary file (SQLite manual, "In-Memory Databases").
        self._rows = sqlite3.connect("", isolation_level=None)
        self._rows.execute("PRAGMA synchronous = OFF")
        self._rows.execute(
            "CREATE TABLE outcomes (key TEXT, handler TEXT, failed INTEGER, shown TEXT, seen INTEGER DEFAULT 0, "
            "PRIMARY KEY (key, handler)) WITHOUT ROWID"
        )
        self._rows.execute("BEGIN")
        try:
            self._rows.executemany(
                "INSERT INTO outcomes (key, handler, failed, shown) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET failed = excluded.failed, shown = excluded.shown",
                ((one.key, one.handler, one.failed, one.shown) for one in _read(file, name)),
            )
        except BaseException:
            self._rows.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def compare(self, outcome: RunResult) -> tuple[Change, str | None]:
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


def header() -> bytes:
    """Return the first line of a file of outcomes."""
    return json.dumps({"format": FORMAT, "version": VERSION}).encode() + b"\n"


def go_on(file: IO[bytes], name: str) -> None:
    """Make a file of outcomes ready for more of them; a line that was not written to its end is cut off.

    Raises ConfigurationError for what is no such file.
    """
    _check_header(file, name)
    whole = file.tell()
    while file.readline(MAX_LINE_BYTES).endswith(b"\n"):
        whole = file.tell()
    file.seek(whole)
    file.truncate()


def _check_header(file: IO[bytes], name: str) -> None:
    """Read the first line of a file of outcomes; raises ConfigurationError for what is none."""
    try:
        found = load_json(file.readline(MAX_LINE_BYTES))
        kind, version = found["format"], found["version"]
    except (NotJson, KeyError, TypeError):
        kind, version = None, None
    if kind != FORMAT:
        raise ConfigurationError(
            f"{name} is no file that `receiver replay --save` has written; it is left as it is"
        )
    if version != VERSION:
        raise ConfigurationError(
            f"{name} was written by another version of this program: format {version}, this one reads {VERSION}"
        )


def _read(file: IO[bytes], name: str) -> Iterator[RunResult]:
    _check_header(file, name)
    number = 1
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        try:
            yield _outcome(load_json(line))
        except (NotJson, KeyError, TypeError, ValueError):
            raise ConfigurationError(f"{name}, line {number}: this is no outcome of a replay") from None


def _outcome(fields: Any) -> RunResult:
    error = fields["error"]
    return RunResult(
        key=_text(fields["key"]),
        type=_text(fields["type"]),
        handler=_text(fields["handler"]),
        outcome=_text(fields["outcome"]),
        value=None if error is not None else to_json(fields["value"], ensure_ascii=True).decode(),
        error=None if error is None else _text(error),
        seconds=float(fields["seconds"]),
    )


def _text(value: object) -> str:
    """Return a text that SQLite takes; ValueError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    value.encode()
    return value
