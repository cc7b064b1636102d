"""Ctrl-C for long commands: the first stops after the step at hand, the second cuts it off."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from receiver.cli.output import note


@contextmanager
def stopping_at_interrupt(step: str) -> Iterator[asyncio.Event]:
    """Give an event that Ctrl-C sets while the block runs; a second one cancels the running task.

    Code that keeps the event loop to itself cannot be cancelled: there the second is a KeyboardInterrupt.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stop = asyncio.Event()
    asked = False

    def answer(*, cut_off: bool) -> None:
        nonlocal asked
        asked = False
        if cut_off and task is not None:
            task.cancel()
        elif not cut_off:
            note(f"\nstopping after {step}; Ctrl-C once more cuts it off")

    def interrupted(*_: object) -> None:
        nonlocal asked
        if asked:  # the loop has not turned since the last one
            raise KeyboardInterrupt
        asked = True
        loop.call_soon_threadsafe(partial(answer, cut_off=stop.is_set()))
        stop.set()

    with _at_interrupt(interrupted):
        yield stop


@contextmanager
def ending_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C end a block that keeps the event loop to itself, as a question does."""
    with _at_interrupt(signal.default_int_handler):
        yield


@contextmanager
def _at_interrupt(handler: "signal._HANDLER") -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
