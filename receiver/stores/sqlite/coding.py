"""How bodies are written in the store, and read back as they came."""

import zlib

from receiver.errors import StoreError

PLAIN, DEFLATED = 0, 1


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
        f"the stored body of delivery {key} is damaged; import the delivery from an export, or prune its body"
    )
