"""Signals that stop a command. A long one finishes its current step after the first, but not after a second."""

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
    """Give an event that Ctrl-C or SIGTERM sets while the block runs; a second one cancels the running task.

    Code that blocks the event loop cannot be cancelled: there the second signal raises KeyboardInterrupt. A process
    that the block forks ends at these signals.
    """
    loop, task, process = asyncio.get_running_loop(), asyncio.current_task(), os.getpid()
    stop = asyncio.Event()
    unanswered = False

    def answer(*, cancel: bool) -> None:
        nonlocal unanswered
        unanswered = False
        if cancel and task is not None:
            task.cancel()

    def interrupted(number: int, _: object) -> None:
        nonlocal unanswered
        if os.getpid() != process:  # a handler has forked, and multiprocessing ends its processes with SIGTERM
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            return
        if unanswered:  # the loop has not run since the last signal
            raise KeyboardInterrupt
        unanswered, is_first = True, not stop.is_set()
        stop.set()
        loop.call_soon_threadsafe(partial(answer, cancel=not is_first))
        if is_first:
            # Not through sys.stderr: the signal may have interrupted a write there.
            again = "press Ctrl-C" if number == signal.SIGINT else "send SIGTERM"
            with suppress(OSError):
                os.write(_STDERR, f"\nstopping after {step}; {again} again to stop at once\n".encode())

    with _handling(interrupted, signal.SIGINT, signal.SIGTERM):
        yield stop


@contextmanager
def ending_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C end a block that blocks the event loop, such as a question."""
    with _handling(signal.default_int_handler, signal.SIGINT):
        yield


@contextmanager
def _handling(handler: "signal._HANDLER", *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
