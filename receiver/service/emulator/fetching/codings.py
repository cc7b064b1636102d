"""Content codings (RFC 9110, section 8.4), within a limit on what comes out."""

import zlib
from collections.abc import Sequence

ACCEPTED_CODINGS = "gzip, deflate"
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""How zlib is told what wraps the data: https://docs.python.org/3/library/zlib.html#zlib.decompress."""
_PIECE_BYTES = 64 * 1024
_MAX_MEMBERS = 1000
"""Of a gzip file (RFC 1952, section 2.2). What is left of a piece after a member is copied, so each one costs."""


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
            raise BrokenCoding("the data are not in their content coding") from None
        place += len(piece) - len(stream.unconsumed_tail) - len(stream.unused_data)
        is_begun = not stream.eof
        if stream.eof:
            members += 1
            stream = zlib.decompressobj(bits)
    if is_begun and len(out) < limit and not cut:
        raise BrokenCoding("the data end before their content coding does")
    return bytes(out)
