"""Content codings (RFC 9110, section 8.4), within a limit on what comes out."""

import zlib
from collections.abc import Sequence

import brotli
import zstandard

ACCEPTED_CODINGS = "gzip, deflate, br, zstd"
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""How zlib is told what wraps the data: https://docs.python.org/3/library/zlib.html#zlib.decompress."""
_PIECE_BYTES = 64 * 1024
_MAX_MEMBERS = 1000
"""Of a gzip file (RFC 1952, section 2.2). What is left of a piece after a member is copied, so each one costs."""
_ZSTD_PIECE_BYTES = 512
"""Less, since the output of a piece cannot be limited: each 4 bytes can stand for 128 KiB (RFC 8878, 3.1.1.2)."""
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
"""The largest window of the content coding: RFC 9659, section 3."""

_NOT_IN_CODING = "the data are not in their content coding"
_ENDS_EARLY = "the data end before their content coding does"


class BrokenCoding(ValueError):
    """The data are not in the coding that they are said to be in, or in one that is not known."""


def decoded(data: bytes, codings: Sequence[str], limit: int, *, cut: bool = False) -> bytes:
    """Return the first `limit` bytes of the data without their content coding.

    It stops there, so that a little data that stand for a lot need neither the time nor the memory. Raises
    BrokenCoding, also for several codings: nobody asked for them. With `cut` the data may end too early.
    """
    match [coding.strip().lower() for coding in codings]:
        case [] | ["identity"]:
            return data[:limit]
        case ["gzip" | "x-gzip"]:
            return _inflated(data, _GZIP, limit, cut=cut)
        case ["deflate"]:
            # RFC 9110, section 8.4.1.2: some leave out the wrapper.
            bits = _ZLIB if data[:1] and data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0 else _RAW
            return _inflated(data, bits, limit, cut=cut)
        case ["br"]:
            return _unbrotlied(data, limit, cut=cut)
        case ["zstd"]:
            return _unzstandarded(data, limit, cut=cut)
    raise BrokenCoding(f"the content coding {', '.join(codings)[:40]!r} is not known")


def is_gzip(data: bytes) -> bool:
    """Tell whether data look like a gzip file: RFC 1952, section 2.3.1."""
    return data.startswith(b"\x1f\x8b")


def _inflated(data: bytes, bits: int, limit: int, *, cut: bool) -> bytes:
    out = bytearray()
    view = memoryview(data)
    place, stream, is_begun = 0, zlib.decompressobj(bits), False
    members = 0
    while place < len(view) and len(out) < limit and members < _MAX_MEMBERS:
        piece = view[place : place + _PIECE_BYTES]
        try:
            out += stream.decompress(piece, limit - len(out))
        except zlib.error:
            if members:  # padding after the last member
                return bytes(out)
            raise BrokenCoding(_NOT_IN_CODING) from None
        place += len(piece) - len(stream.unconsumed_tail) - len(stream.unused_data)
        is_begun = not stream.eof
        if stream.eof:
            members += 1
            stream = zlib.decompressobj(bits)
    if is_begun and len(out) < limit and not cut:
        raise BrokenCoding(_ENDS_EARLY)
    return bytes(out)


def _unbrotlied(data: bytes, limit: int, *, cut: bool) -> bytes:
    stream = brotli.Decompressor()
    out = bytearray()
    place = 0
    while not stream.is_finished() and len(out) < limit:
        piece = b""
        if stream.can_accept_more_data():
            piece = data[place : place + _PIECE_BYTES]
            place += len(piece)
            if not piece:
                break
        try:
            out += stream.process(piece, output_buffer_limit=limit - len(out))
        except brotli.error:
            raise BrokenCoding(_NOT_IN_CODING) from None
    if not stream.is_finished() and len(out) < limit and not cut:
        raise BrokenCoding(_ENDS_EARLY)
    return bytes(out[:limit])


def _unzstandarded(data: bytes, limit: int, *, cut: bool) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    out = bytearray()
    place, members, is_begun = 0, 0, False
    stream = decompressor.decompressobj()
    while place < len(data) and len(out) < limit and members < _MAX_MEMBERS:
        piece = data[place : place + _ZSTD_PIECE_BYTES]
        try:
            out += stream.decompress(piece)
        except zstandard.ZstdError:
            raise BrokenCoding(_NOT_IN_CODING) from None
        place += len(piece) - len(stream.unused_data)
        is_begun = not stream.eof
        if stream.eof:
            members += 1
            stream = decompressor.decompressobj()
    if is_begun and len(out) < limit and not cut:
        raise BrokenCoding(_ENDS_EARLY)
    return bytes(out[:limit])
