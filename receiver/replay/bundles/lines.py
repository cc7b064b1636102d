"""Cuts a file into lines in bounded memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from receiver.replay.bundles.packing import Gap, Unpacked

MAX_SKIPPED = 64 * 1024 * 1024
"""Bytes of empty and of too long lines that every file may have."""
MAX_RATIO = 100
"""More such bytes for each byte of the file. Events have no limit: redacted ones pack much better."""
_BLANK = re.compile(rb"\s*\n")


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage in a file: the number of the line, counted from 1, and the reason why the line is not read.

    In a gap any number of lines may be missing.
    """

    line: int
    reason: str
    is_gap: bool = False


class BundleLine(NamedTuple):
    """A line with its number, without its line feed. `ended` is False for a last line that has no line feed."""

    number: int
    text: bytes
    ended: bool


def lines_of(pieces: Unpacked, *, longest: int) -> Iterator[BundleLine | Damage]:
    """Yield every line that is not empty, or the damage in its place.

    The lines missing in a gap are not counted. If very many bytes hold no event, the rest of the file is not read.
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
    if last := cutting.line(ended=False):
        yield last


class _Cutting:
    def __init__(self, longest: int) -> None:
        self.number = 1
        self.skipped = 0
        """Bytes of empty and of too long lines."""
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[BundleLine | Damage]:
        """Yield the lines that end in this piece. Damage is yielded as soon as a line is too long."""
        start = 0
        while True:
            if self._length == 0 and (blank := _BLANK.match(piece, start)):  # not one by one: there can be millions
                self.number += piece.count(b"\n", start, blank.end())
                self.skipped += blank.end() - start
                start = blank.end()
            end = piece.find(b"\n", start)
            if damage := self._add(piece[start:] if end < 0 else piece[start:end]):
                yield damage
            if end < 0:
                return
            if line := self.line(ended=True):
                yield line
            self.number += 1
            start = end + 1

    def line(self, *, ended: bool) -> BundleLine | None:
        """Return the collected parts as a line, unless it is empty or too long."""
        text, is_too_long = b"".join(self._parts), self._length > self._longest
        self.drop_rest()
        if text and not text.isspace():
            return BundleLine(self.number, text, ended)
        if not is_too_long:
            self.skipped += len(text)
        return None

    def drop_rest(self) -> None:
        """Drop the collected parts."""
        self._parts.clear()
        self._length = 0

    def _add(self, part: bytes) -> Damage | None:
        was_too_long = self._length > self._longest
        self._length += len(part)
        if self._length <= self._longest:
            if part:
                self._parts.append(part)
            return None
        self._parts.clear()
        self.skipped += len(part) if was_too_long else self._length
        if was_too_long:
            return None
        return Damage(
            self.number,
            f"longer than {self._longest:,} bytes, so its body is longer than RECEIVER_MAX_BODY allows",
        )
