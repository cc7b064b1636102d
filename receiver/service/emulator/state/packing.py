"""Documents and bodies as they are kept: compressed, because a state without a file is in memory."""

import zlib

_FAST = 1


def pack(content: bytes) -> bytes:
    """Return bytes in a short form."""
    return zlib.compress(content, _FAST)


def unpack(packed: bytes) -> bytes:
    """Return the bytes that `pack` was given."""
    return zlib.decompress(packed)
