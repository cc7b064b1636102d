"""The write-ahead log as a file: where it is, and whether it can belong to its database."""

import os
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAGIC_LITTLE, _MAGIC_BIG = 0x377F0682, 0x377F0683
"""How a log begins; the two differ in the byte order of its checksums (SQLite file format, section 4.1)."""
_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_COUNTER = slice(24, 28)
"""The file change counter in the first page of a database (SQLite file format, section 1.3.7)."""
_FRAMES_TO_VERIFY = 500
"""Checksums are slow in Python. The first change of the first page is one of the first frames of a log."""


def log_path(path: Path) -> Path:
    """Return the write-ahead log of a database."""
    return beside(path, "-wal")


def index_path(path: Path) -> Path:
    """Return the index of the log, which all processes that have the database open share."""
    return beside(path, "-shm")


def beside(path: Path, suffix: str) -> Path:
    """Return a file that belongs to a database. SQLite puts it beside the file itself, not beside a link."""
    real = real_path(path)
    return real.with_name(f"{real.name}{suffix}")


def real_path(path: Path) -> Path:
    """Return the file itself, where a path is a link to it."""
    return path.resolve() if os.path.islink(path) else path  # noqa: PTH114 - Path's own fails for too long a name


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a log says about the database that it belongs to.

    `first` and `last` are the lowest and the highest change counter that it holds, None if it does not change the
    first page.
    """

    page_size: int
    first: int | None = None
    last: int | None = None

    def fits(self, header: bytes) -> bool:
        """Return whether a database with this header, of 100 bytes, can be the one of the log.

        SQLite itself does not ask: it takes any log with the right name. A commit of the first page increases the
        change counter by one, or leaves it where the same connection made the commit before. So the counter in the
        database is at most one less than the first in the log. It is at most the last one, as only this log can
        have been moved into the database since.
        """
        if len(header) < 100:
            return False
        size = int.from_bytes(header[16:18])
        if (65_536 if size == 1 else size) != self.page_size:
            return False
        if self.first is None or self.last is None:
            return True
        return self.first - 1 <= int.from_bytes(header[_COUNTER]) <= self.last


def log_facts(path: Path) -> LogFacts | None:
    """Read the log at this path. Return None if SQLite would find nothing in it either."""
    try:
        with path.open("rb") as file:
            return _facts(file)
    except OSError:  # there is none, or SQLite's own attempt to read it reports what is wrong
        return None


def _facts(file: BinaryIO) -> LogFacts | None:
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return None
    magic, page_size = int.from_bytes(header[:4]), int.from_bytes(header[8:12])
    if magic not in (_MAGIC_LITTLE, _MAGIC_BIG):
        return None
    sums = _Checksum(is_big=magic == _MAGIC_BIG)
    sums.add(header[:24])
    if not sums.equals(header[24:32]):
        return None
    first = _first_counter(file, header[16:24], page_size, sums)
    if first is None:
        return LogFacts(page_size)
    return LogFacts(page_size, first, max(first, _last_counter(file, header[16:24], page_size)))


def _first_counter(file: BinaryIO, salts: bytes, page_size: int, sums: "_Checksum") -> int | None:
    """Return the change counter in the first frame of the first page.

    The checksums up to that frame have to be right: a power cut can leave a frame of which only a part was written.
    """
    for _ in range(_FRAMES_TO_VERIFY):
        frame = file.read(_FRAME_HEADER_BYTES + page_size)
        if len(frame) < _FRAME_HEADER_BYTES + page_size or frame[8:16] != salts:
            return None
        page = frame[_FRAME_HEADER_BYTES:]
        sums.add(frame[:8])
        sums.add(page)
        if not sums.equals(frame[16:24]):
            return None
        if int.from_bytes(frame[:4]) == 1:
            return int.from_bytes(page[_COUNTER])
    return None


def _last_counter(file: BinaryIO, salts: bytes, page_size: int) -> int:
    """Return the highest change counter in the log, from the frames with its salts; others are older."""
    highest = 0
    place = _HEADER_BYTES
    while True:
        file.seek(place)
        frame = file.read(_FRAME_HEADER_BYTES + _COUNTER.stop)
        if len(frame) < _FRAME_HEADER_BYTES + _COUNTER.stop or frame[8:16] != salts:
            return highest
        if int.from_bytes(frame[:4]) == 1:
            highest = max(highest, int.from_bytes(frame[_FRAME_HEADER_BYTES:][_COUNTER]))
        place += _FRAME_HEADER_BYTES + page_size


class _Checksum:
    """The running checksum of a log (SQLite file format, section 4.2)."""

    def __init__(self, *, is_big: bool) -> None:
        self._swap = is_big != (sys.byteorder == "big")
        self._first = self._second = 0

    def add(self, content: bytes) -> None:
        words = array("I", content)
        if self._swap:
            words.byteswap()
        first, second = self._first, self._second
        for even, odd in zip(words[::2], words[1::2], strict=True):
            first = (first + even + second) & 0xFFFFFFFF
            second = (second + odd + first) & 0xFFFFFFFF
        self._first, self._second = first, second

    def equals(self, stored: bytes) -> bool:
        return stored == self._first.to_bytes(4) + self._second.to_bytes(4)
