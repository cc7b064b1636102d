"""Ctrl-C for long commands: the first stops after the step at hand, the second cuts it off."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from receiver.cli.output import note


@contextmanager
def stopping_at_interrupt(step: str) -> Iterator[asyncio.Event]:
    """Give an event that Ctrl-C sets while the block runs; a second one cancels the running task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        elif not stop.is_set():
            note(f"\nstopping after {step}; Ctrl-C once more cuts it off")
            stop.set()

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(interrupted))
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
