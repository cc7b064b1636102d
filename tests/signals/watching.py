"""Tools for tests of subscribers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from receiver.signals.subscribers import Signal, flush
from tests.doubles import LONG

PATIENCE = timedelta(seconds=LONG)
AT_ONCE = timedelta(0)


def kept() -> tuple[list[int], Callable[[int], None]]:
    """Return a list and a subscriber that fills it."""
    seen: list[int] = []
    return seen, seen.append


def delivered() -> None:
    """Wait until all records have reached their subscribers."""
    assert flush(PATIENCE)


@contextmanager
def blocked(signal: Signal[int], *, in_loop: bool = False) -> Iterator[Callable[..., Any]]:
    """Connect a subscriber that blocks its thread, in a plain or an async function, as long as the block lasts."""
    begun, end = threading.Event(), threading.Event()

    def block(number: int) -> None:
        begun.set()
        assert end.wait(LONG)

    async def block_loop(number: int) -> None:
        block(number)

    chosen = block_loop if in_loop else block
    signal.connect(chosen)
    signal.emit(0)
    assert begun.wait(LONG)
    try:
        yield chosen
    finally:
        end.set()
        delivered()
