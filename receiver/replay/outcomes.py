"""The outcomes of a replay: results, their comparison with an earlier replay, and the files that keep them."""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any, Self

from pydantic_core import to_json

from receiver.core.envelope import NotJson, load_json
from receiver.core.types import AttemptOutcome
from receiver.errors import ConfigurationError
from receiver.replay.local import LocalRun

MAX_VALUE_LENGTH = 100_000
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""A memory address in the `repr` of an object; it differs from run to run."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one handler for one delivery.

    `id` is that of the delivery. `value` is the JSON text of what the handler returned, or of its `repr` if it is
    not JSON. `error` is None for a handler that returned.
    """

    id: str
    type: str
    handler: str
    outcome: str
    value: str | None
    error: str | None
    seconds: float

    @classmethod
    def of(cls, run: LocalRun) -> Self:
        """Return the result of a run."""
        attempt, delivery = run.attempt, run.stored.delivery
        succeeded = attempt.outcome is AttemptOutcome.SUCCEEDED
        return cls(
            id=delivery.key,
            type=delivery.type,
            handler=run.handler.name,
            outcome=attempt.outcome.value,
            value=_as_json(run.value) if succeeded else None,
            error=None if succeeded else _ADDRESS.sub("", attempt.error or attempt.outcome.value),
            seconds=attempt.took.total_seconds(),
        )

    @property
    def failed(self) -> bool:
        """Return whether the handler raised or was too slow."""
        return self.error is not None

    @property
    def text(self) -> str:
        """The value or the error in one text. Equal results have equal texts."""
        return f"raised {self.error}" if self.error is not None else f"returned {self.value}"

    def line(self, **more: str | None) -> str:
        """Return it as a line of NDJSON in ASCII, with more fields if they are given."""
        fields = {
            "id": self.id,
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
        text = to_json(_ordered(value), fallback=_repr, inf_nan_mode="strings", ensure_ascii=True).decode()
    except (Exception, SystemExit):  # a lone surrogate, a list that contains itself, or code of the value's class
        text = json.dumps(_repr(value))
    if len(text) > MAX_VALUE_LENGTH:
        text = json.dumps(text[:MAX_VALUE_LENGTH] + f"... {len(text):,} characters")
    return text


def _ordered(value: object) -> object:
    """Return a value with its sets as sorted lists: the order of a set differs from run to run."""
    match value:
        case set() | frozenset():
            return sorted(map(_ordered, value), key=_repr)
        case dict():
            return {key: _ordered(item) for key, item in value.items()}
        case list() | tuple():
            return [_ordered(item) for item in value]
        case _:
            return value


def _repr(value: object) -> str:
    """Return a `repr` that is the same in every run."""
    try:
        return _ADDRESS.sub("", ascii(value))
    except (Exception, SystemExit):
        return f"<{type(value).__module__}.{type(value).__qualname__} object>"


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


FORMAT = "receiver-outcomes"
VERSION = 2
MAX_LINE_BYTES = 8 * 1024 * 1024


def header() -> bytes:
    """Return the first line of a file of results."""
    return json.dumps({"format": FORMAT, "version": VERSION}).encode() + b"\n"


def seek_end(file: IO[bytes], name: str) -> None:
    """Move to the end of a file of results, so that more can be written; an incomplete last line is cut off.

    Raises ConfigurationError for another kind of file.
    """
    _check_header(file, name)
    end = file.tell()
    while file.readline(MAX_LINE_BYTES).endswith(b"\n"):
        end = file.tell()
    file.seek(end)
    file.truncate()


def read_results(file: IO[bytes], name: str) -> Iterator[RunResult]:
    """Yield the results in a file; raises ConfigurationError with the number of a wrong line."""
    _check_header(file, name)
    number = 1
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        try:
            yield _result(load_json(line))
        except (NotJson, KeyError, TypeError, ValueError):
            raise ConfigurationError(f"{name}, line {number}: this is not a result of a replay") from None


def _check_header(file: IO[bytes], name: str) -> None:
    """Read the first line; raises ConfigurationError if it is not the header of a file of results."""
    try:
        found = load_json(file.readline(MAX_LINE_BYTES))
        kind, version = found["format"], found["version"]
    except (NotJson, KeyError, TypeError):
        kind, version = None, None
    if kind != FORMAT:
        raise ConfigurationError(f"{name} was not written by `receiver replay --save`; it is left as it is")
    if version != VERSION:
        raise ConfigurationError(
            f"{name} was written by another version of this program: "
            f"its format is {version}, and this program reads format {VERSION}"
        )


def _result(fields: Any) -> RunResult:
    error = fields["error"]
    return RunResult(
        id=_text(fields["id"]),
        type=_text(fields["type"]),
        handler=_text(fields["handler"]),
        outcome=_text(fields["outcome"]),
        value=None if error is not None else to_json(fields["value"], ensure_ascii=True).decode(),
        error=None if error is None else _text(error),
        seconds=float(fields["seconds"]),
    )


def _text(value: object) -> str:
    """Return a text that SQLite takes; raises TypeError or ValueError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    value.encode()
    return value
