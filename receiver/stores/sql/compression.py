"""How bodies are written in the store, and read back as they came."""

import zlib

from receiver.errors import StoreError

PLAIN, DEFLATED = 0, 1

LEAST = 8 * 1024
"""Bytes of a body that is worth it: a shorter one lies within a page, and a page with holes is no shorter."""

_LEVEL = 1
"""To 37 % of a page of 50 KB in 0.7 ms; level 6 comes to 32 % in twice the time. zstandard takes 0.2 ms, and would
be one more dependency for what is done in idle moments."""


def deflated(body: bytes) -> bytes | None:
    """Return the body smaller (RFC 1950), or None if that gains little."""
    small = zlib.compress(body, _LEVEL)
    return small if len(small) < 0.9 * len(body) else None


def decoded(body: bytes, coding: int, *, key: str) -> bytes:
    """Return the body as it came; raises StoreError when what is stored of it is damaged."""
    if coding == PLAIN:
        return body
    try:
        if coding == DEFLATED:
            return zlib.decompress(body)
    except zlib.error:
        pass
    raise StoreError(
        f"the stored body of delivery {key} is damaged; prune its body, and import the delivery from an export"
    )
