"""gzip in many members (RFC 1952, section 2.2): damage to one member leaves the others readable."""

import zlib
from collections.abc import Generator, Iterator
from enum import Enum
from typing import IO

from receiver.errors import ReceiverError

CHUNK = 2**16
_SLICE = 2**13
"""Bytes that zlib gets at once. It copies the bytes after the end of a member, so they must be few."""
_GZIP = 31
"""Makes zlib read and write the gzip format (zlib manual, deflateInit2 and inflateInit2)."""
_LEVEL = 3
"""Half again as fast as level 4 and 6 % larger, and three times as fast as level 6; measured on pages of 2 KB."""
_BEGINNING = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0])
"""The first bytes of each member: no name and no time: the same content gives the same file."""
_MAGIC = _BEGINNING[:2]


class Gap(Enum):
    """A place where unpacked data may be missing."""

    DAMAGED = "the compressed data is damaged here, so lines may be missing"
    CUT = "the compressed data ends too early"


def packed(data: bytes) -> bytes:
    """Return the data as one member."""
    packing = zlib.compressobj(_LEVEL, wbits=_GZIP)
    return packing.compress(data) + packing.flush()


class Unpacked:
    """The content of a file, piece by piece, and gaps where data may be missing. It need not be packed.

    It can be iterated once. `bytes_read` counts the bytes of the file. Raises ReceiverError if the file cannot be
    read.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.bytes_read = 0
        self._stream = stream

    def __iter__(self) -> Iterator[bytes | Gap]:
        """Yield the pieces and the gaps."""
        unpacking: _Unpacking | None = None
        for chunk in iter(self._chunk, b""):
            if self.bytes_read == 0 and chunk.startswith(_MAGIC):
                unpacking = _Unpacking()
            self.bytes_read += len(chunk)
            if unpacking is None:
                yield chunk
            else:
                yield from unpacking.feed(chunk)
        if unpacking is not None and unpacking.is_cut():
            yield Gap.CUT

    def _chunk(self) -> bytes:
        try:
            return self._stream.read(CHUNK)
        except OSError as exc:
            what = "the rest of the bundle" if self.bytes_read else "the bundle"
            raise ReceiverError(f"cannot read {what}: {exc.strerror or exc}") from exc


class _Unpacking:
    """Unpacks one member after the other. After damage it continues with the next member that this program wrote.

    zlib often notices damage late, so the search for the next member goes back a little. After damage to a member
    that was found in this way, the search does not go back. So each byte is unpacked at most twice, however many
    members begin within one another.
    """

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None
        """The member that has begun and has not ended."""
        self._went_back = False
        """Whether that member begins within another one that was damaged."""
        self._lost = False
        """Whether damage has been reported and the next member is not found yet."""
        self._unread = b""

    def is_cut(self) -> bool:
        """Return whether the data ends too early."""
        return self._member is not None or (bool(self._unread) and not self._lost)

    def feed(self, chunk: bytes) -> Iterator[bytes | Gap]:
        """Yield the data that can be unpacked now."""
        data, self._unread = self._unread + chunk, b""
        at = seen = 0
        is_full = False
        while at < len(data) or is_full:
            if self._member is None:
                at = yield from self._begin(data, at)
                self._went_back = at < seen
                continue
            part = data[at : at + _SLICE]
            before = self._member.copy()
            try:
                plain = self._member.decompress(part, CHUNK)
            except zlib.error:
                plain, whole = _salvaged(before, part)
                yield plain
                yield Gap.DAMAGED
                seen = max(seen, at + whole)
                at += 1 + (whole if self._went_back else 0)
                self._member, self._lost, is_full = None, True, False
                continue
            yield plain
            if self._member.eof:
                at += len(part) - len(self._member.unused_data)
                self._member, is_full = None, False
            else:
                at += len(part) - len(self._member.unconsumed_tail)
                is_full = len(plain) == CHUNK

    def _begin(self, data: bytes, at: int) -> Generator[Gap, None, int]:
        """Begin the next member; return its place, or the end of the data if it does not begin there."""
        if not self._lost and len(data) - at < len(_MAGIC):
            self._unread = data[at:]
            return len(data)
        if not self._lost and not data.startswith(_MAGIC, at):
            self._lost = True
            yield Gap.DAMAGED
        start = data.find(_BEGINNING, at) if self._lost else at
        if start < 0:
            self._unread = data[max(at, len(data) - len(_BEGINNING) + 1) :]
            return len(data)
        self._member, self._lost = zlib.decompressobj(wbits=_GZIP), False
        return start


def _salvaged(member: "zlib._Decompress", data: bytes) -> tuple[bytes, int]:
    """Return the unpacked data before the damage, and the number of bytes that it was packed in.

    A binary search finds the damage, so that all attempts together read the data once.
    """
    plain: list[bytes] = []
    whole, end = 0, len(data)
    while end - whole > 1:
        middle = (whole + end) // 2
        trial = member.copy()
        try:
            plain.append(trial.decompress(data[whole:middle]))
        except zlib.error:
            end = middle
        else:
            member, whole = trial, middle
    return b"".join(plain), whole
