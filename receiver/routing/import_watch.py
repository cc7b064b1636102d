"""Tells that an import takes long, while it goes on."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from receiver.core.tracebacks import place_in

PATIENCE = timedelta(seconds=5)
"""Large libraries take some seconds. Whoever waits longer wants to know why."""


@contextmanager
def watched_import(tell: Callable[[str], object], *, patience: timedelta = PATIENCE) -> Iterator[None]:
    """Call `tell` once if the block, which imports code of the user, runs longer than `patience`. It goes on.

    `tell` gets file and line that the import has come to, as in `handlers.py:14`, or an empty text if it is not in
    the user's code. It is called in another thread, which has ended when the block has. It is not called while code
    in C lets no other thread run.
    """
    importing = threading.get_ident()

    def look() -> None:
        tell(place_in(sys._current_frames().get(importing)))

    timer = threading.Timer(patience.total_seconds(), look)
    timer.daemon = True  # a `tell` that does not return shall not keep the process alive
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
