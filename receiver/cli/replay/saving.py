"""The files of `receiver replay`: --save writes them, and --compare reads them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from receiver.cli.common.output import note
from receiver.core.text import escape_controls
from receiver.errors import ConfigurationError, ReceiverError
from receiver.replay.comparison import Earlier
from receiver.replay.saved_results import header, read_results, seek_end
from receiver.stores.sqlite.companions import require_no_companion


class SaveFile:
    """Writes lines of results, each to the file at once."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name

    def write(self, line: bytes) -> None:
        """Write a line; raises ReceiverError if it cannot be written, as on a full disk."""
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as exc:
            raise ReceiverError(f"cannot write {self._name}: {exc.strerror}") from exc


@contextmanager
def saving_to(path: Path, *, continues: bool) -> Iterator[SaveFile]:
    """Give a file for results. It replaces an earlier one, and says so, or with `continues` appends to it.

    Raises ConfigurationError for a file with other contents or of a database, and does not change it.
    """
    name = escape_controls(str(path))
    require_no_companion(path)
    has_some = path.is_file() and path.stat().st_size > 0
    try:
        file = path.open("r+b" if has_some else "wb")
    except OSError as exc:
        raise ConfigurationError(f"cannot write {name}: {exc.strerror}") from None
    saved = SaveFile(file, name)
    try:
        if has_some:
            seek_end(file, name)
        if has_some and not continues:
            note(f"{name}: these results replace those of an earlier replay")
            file.seek(0)
            file.truncate()
        if not (has_some and continues):
            saved.write(header())
        yield saved
    finally:
        with suppress(OSError):  # a line that could not be written was an error already
            file.close()


@contextmanager
def earlier_in(path: Path) -> Iterator[Earlier]:
    """Give the results that an earlier replay saved; raises ConfigurationError for another file."""
    name = escape_controls(str(path))
    try:
        with path.open("rb") as file:
            earlier = Earlier(read_results(file, name))
    except OSError as exc:
        raise ConfigurationError(f"cannot read {name}: {exc.strerror}") from None
    with earlier:
        yield earlier
