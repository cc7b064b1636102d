"""Attempts as JSON lines, where `--trace` wants them, and files that it must not write over."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from receiver.cli.common.output import write_bytes
from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError
from receiver.service.samples import encode
from receiver.service.simulator.report import attempt_as_json
from receiver.service.simulator.run import SimulatedAttempt

STDOUT = Path("-")
Tell = Callable[[SimulatedAttempt, Mapping[str, Any]], None]
"""Writes an attempt, and more that is known of it."""


@contextmanager
def tracing(path: Path | None) -> Iterator[Tell]:
    """Give the block a function that writes an attempt where it is wanted."""
    if path is None:
        yield lambda attempt, more: None
    elif path == STDOUT:
        yield lambda attempt, more: write_bytes(_line(attempt, more))
    else:
        with opened(path) as file:
            yield lambda attempt, more: (file.write(_line(attempt, more)), None)[1]


def _line(attempt: SimulatedAttempt, more: Mapping[str, Any]) -> bytes:
    return encode({**attempt_as_json(attempt), **more}) + b"\n"


def opened(path: Path) -> BinaryIO:
    """Open a file for writing. Raises ConfigurationError if that cannot be, or if it is a scenario."""
    if path.suffix == ".toml":  # `--trace scenario.toml` was meant to read it
        raise ConfigurationError(
            f"{escape_controls(str(path))} is a scenario, and would be written over: put it first"
        )
    try:
        return path.open("wb")
    except OSError as exc:
        raise ConfigurationError(f"cannot write {escape_controls(str(path))}: {exc.strerror}") from exc
