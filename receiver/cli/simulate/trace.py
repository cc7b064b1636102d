"""The files of `--trace`, `--html` and `--svg`: attempts as JSON lines, and protection of scenario files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from receiver.cli.common.output import write_json
from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError
from receiver.service.samples import encode
from receiver.service.simulator.report import attempt_as_json
from receiver.service.simulator.run import SimulatedAttempt
from receiver.stores.sqlite.companions import require_no_database

STDOUT = Path("-")
WriteAttempt = Callable[[SimulatedAttempt, Mapping[str, Any]], None]
"""Writes an attempt with more fields."""


@contextmanager
def tracing(path: Path | None) -> Iterator[WriteAttempt]:
    """Give the block a function that writes an attempt to the file, to standard output, or nowhere."""
    if path is None:
        yield lambda attempt, more: None
    elif path == STDOUT:
        yield lambda attempt, more: write_json(_fields(attempt, more))
    else:
        with opened(path) as file:
            yield lambda attempt, more: (file.write(encode(_fields(attempt, more)) + b"\n"), None)[1]


def _fields(attempt: SimulatedAttempt, more: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**attempt_as_json(attempt), **more}


def opened(path: Path) -> BinaryIO:
    """Open a file for writing. Raises ConfigurationError if that fails, or if it is a scenario or a database."""
    if path.suffix == ".toml":  # with `--trace scenario.toml` somebody means to read it
        raise ConfigurationError(
            f"{escape_controls(str(path))} is a scenario and would be overwritten: put it first"
        )
    require_no_database(path)
    try:
        return path.open("wb")
    except OSError as exc:
        raise ConfigurationError(f"cannot write {escape_controls(str(path))}: {exc.strerror}") from exc
