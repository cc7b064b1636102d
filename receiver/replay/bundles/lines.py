"""Cuts a file into lines in bounded memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from receiver.replay.bundles.packing import Gap


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage in a file: the number of the line, counted from 1, and the reason why the line is not read.

    In a gap any number of lines may be missing.
    """

    line: int
    reason: str
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class BundleLine:
    """A line with its number, without its line feed. `ended` is False for a last line that has no line feed."""

    number: int
    text: bytes
    ended: bool


def lines_of(pieces: Iterable[bytes | Gap], *, longest: int) -> Iterator[BundleLine | Damage]:
    """Yield every line that is not empty, or the damage in its place.

    The lines missing in a gap are not counted.
    """
    cutting = _Cutting(longest)
    for piece in pieces:
        if isinstance(piece, Gap):
            yield Damage(cutting.number, piece.value, is_gap=True)
            cutting.drop_rest()
        else:
            yield from cutting.feed(piece)
    yield from cutting.line(ended=False)


class _Cutting:
    def __init__(self, longest: int) -> None:
        self.number = 1
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[BundleLine | Damage]:
        """Yield the lines that end in this piece."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._add(piece[start:end])
            yield from self.line(ended=True)
            self.number += 1
            start = end + 1
        self._add(piece[start:])

    def line(self, *, ended: bool) -> Iterator[BundleLine | Damage]:
        """Yield the collected parts as a line."""
        text, length = b"".join(self._parts), self._length
        self.drop_rest()
        if length > self._longest:
            yield Damage(
                self.number,
                f"longer than {self._longest:,} bytes, so its body is longer than RECEIVER_MAX_BODY allows",
            )
        elif text and not text.isspace():
            yield BundleLine(self.number, text, ended)

    def drop_rest(self) -> None:
        """Drop the collected parts."""
        self._parts.clear()
        self._length = 0

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._longest:
            self._parts.clear()
        elif part:
            self._parts.append(part)
