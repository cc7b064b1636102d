"""Signals that stop a command. In a long one the first Ctrl-C stops after the step at hand, the second at once."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

_STDERR = 2


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that ask a server or a worker to stop.

    SIGHUP comes when the terminal closes. It is left out if it is ignored, as under `nohup`.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return signal.SIGINT, signal.SIGTERM
    return signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@contextmanager
def stopping_at_interrupt(step: str) -> Iterator[asyncio.Event]:
    """Give an event that Ctrl-C sets while the block runs; a second Ctrl-C cancels the running task.

    Code that blocks the event loop cannot be cancelled: there the second Ctrl-C raises KeyboardInterrupt.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stop = asyncio.Event()
    unanswered = False

    def answer(*, cancel: bool) -> None:
        nonlocal unanswered
        unanswered = False
        if cancel and task is not None:
            task.cancel()

    def interrupted(*_: object) -> None:
        nonlocal unanswered
        if unanswered:  # the loop has not run since the last Ctrl-C
            raise KeyboardInterrupt
        unanswered, is_first = True, not stop.is_set()
        stop.set()
        loop.call_soon_threadsafe(partial(answer, cancel=not is_first))
        if is_first:
            # Not through sys.stderr: the signal may have interrupted a write there.
            with suppress(OSError):
                os.write(_STDERR, f"\nstopping after {step}; press Ctrl-C again to stop at once\n".encode())

    with _at_interrupt(interrupted):
        yield stop


@contextmanager
def ending_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C end a block that blocks the event loop, such as a question."""
    with _at_interrupt(signal.default_int_handler):
        yield


@contextmanager
def _at_interrupt(handler: "signal._HANDLER") -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
