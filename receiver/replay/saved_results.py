"""Files of results that `receiver replay --save` writes: a header, then one line for each result.

Version 1 named the id of a delivery `key`. Both names are read, and `id` is written.
"""

import json
from collections.abc import Iterator
from typing import IO, Any

from pydantic_core import to_json

from receiver.core.envelope import NotJson, load_json
from receiver.errors import ConfigurationError
from receiver.replay.outcomes import RunResult

FORMAT = "receiver-outcomes"
VERSION = 2
_READABLE = (1, VERSION)
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
    if version not in _READABLE:
        raise ConfigurationError(
            f"{name} was written by another version of this program: "
            f"its format is {version}, and this program reads up to {VERSION}"
        )


def _result(fields: Any) -> RunResult:
    error = fields["error"]
    return RunResult(
        id=_text(fields["id"] if "id" in fields else fields["key"]),
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
