"""Writing to a file or pipe that other programs share."""

import os
import select


def write_some(descriptor: int, data: bytes | memoryview) -> int:
    """Write as much of `data` as the file takes at once, and return how many bytes that are.

    It waits while the file takes nothing, also if another program has made a shared pipe non-blocking.
    """
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            select.select((), (descriptor,), ())
