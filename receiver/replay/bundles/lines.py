"""Cutting what a file holds into lines, none of which takes more memory than it may."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from receiver.replay.bundles.packing import Gap, Unpacked

MAX_SKIPPED = 64 * 1024 * 1024
"""Bytes of empty and of too long lines that any file may hold."""
MAX_RATIO = 100
"""Such bytes that each byte of the file may add. Whole events may be packed more tightly, as redacted ones are."""
_BLANK = re.compile(rb"\s*\n")


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong in a file: the number of the line, counted from 1, and why nothing is taken from it.

    A gap is where any number of lines may be missing.
    """

    line: int
    reason: str
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class BundleLine:
    """A line with its number, without its line feed; only the last one may have ended without any."""

    number: int
    text: bytes
    ended: bool


def lines_of(pieces: Unpacked, *, longest: int) -> Iterator[BundleLine | Damage]:
    """Yield every line that is not empty, or what is wrong in its place.

    Behind a gap lines are counted on, whatever it swallowed. A file that unpacks to very much without any event is
    not read to its end.
    """
    cutting = _Cutting(longest)
    for piece in pieces:
        if isinstance(piece, Gap):
            yield Damage(cutting.number, piece.value, is_gap=True)
            cutting.drop_rest()
            continue
        yield from cutting.feed(piece)
        if cutting.skipped > MAX_SKIPPED + MAX_RATIO * pieces.bytes_read:
            reason = f"{cutting.skipped:,} bytes hold no event, so the rest of the file is not read"
            yield Damage(cutting.number, reason, is_gap=True)
            return
    yield from cutting.line(ended=False)


class _Cutting:
    def __init__(self, longest: int) -> None:
        self.number = 1
        self.skipped = 0
        """Bytes of empty and of too long lines."""
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[BundleLine | Damage]:
        """Yield the lines that end in a piece, and damage as soon as a line is too long."""
        start = 0
        while True:
            if self._length == 0 and (blank := _BLANK.match(piece, start)):  # not one by one: there can be millions
                self.number += piece.count(b"\n", start, blank.end())
                self.skipped += blank.end() - start
                start = blank.end()
            end = piece.find(b"\n", start)
            yield from self._add(piece[start:] if end < 0 else piece[start:end])
            if end < 0:
                return
            yield from self.line(ended=True)
            self.number += 1
            start = end + 1

    def line(self, *, ended: bool) -> Iterator[BundleLine]:
        """Yield what has gathered, if it is a line that is neither empty nor too long."""
        text, is_too_long = b"".join(self._parts), self._length > self._longest
        self.drop_rest()
        if text and not text.isspace():
            yield BundleLine(self.number, text, ended)
        elif not is_too_long:
            self.skipped += len(text)

    def drop_rest(self) -> None:
        """Forget what has gathered."""
        self._parts.clear()
        self._length = 0

    def _add(self, part: bytes) -> Iterator[Damage]:
        was_too_long = self._length > self._longest
        self._length += len(part)
        if self._length <= self._longest:
            if part:
                self._parts.append(part)
            return
        self._parts.clear()
        self.skipped += len(part) if was_too_long else self._length
        if not was_too_long:
            yield Damage(
                self.number,
                f"longer than {self._longest:,} bytes, so its body is longer than RECEIVER_MAX_BODY allows",
            )
