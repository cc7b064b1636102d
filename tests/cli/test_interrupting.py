"""Tests of what runs inside signal handlers: a second signal may interrupt them anywhere."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from threading import Condition, Event, Lock, RLock
from types import FrameType
from typing import Any

import pytest

from receiver.cli.common.interrupt import stopping_at_interrupt
from receiver.cli.work import Stopper

LOCKS = (type(Lock()), type(RLock()), Condition, Event)


def locks_used(call: Callable[[], object]) -> set[str]:
    """Return the functions of locks that a call uses, also inside of what it calls."""
    used: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        owner = frame.f_locals.get("self") if event == "call" else getattr(argument, "__self__", None)
        if isinstance(owner, LOCKS):
            used.add(frame.f_code.co_qualname if event == "call" else argument.__qualname__)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return used


def test_the_search_finds_a_lock() -> None:
    """The check of the tests below sees what `Event.set` does."""
    assert "Event.set" in locks_used(Event().set)


async def test_a_signal_to_a_worker_uses_no_lock() -> None:
    """A second signal while the first one is handled cannot wait for a lock that the first one has."""
    stopper, stop = Stopper(within=timedelta(days=9)), asyncio.Event()
    stopper.attach(asyncio.get_running_loop(), stop)

    assert locks_used(lambda: stopper.ask(signal.SIGTERM, None)) == set()

    stopper.start()
    await stop.wait()


async def test_a_first_interrupt_uses_no_lock() -> None:
    """A second Ctrl-C while the first one is handled cannot wait for a lock that the first one has."""
    with stopping_at_interrupt("this page") as stop:
        handler: Any = signal.getsignal(signal.SIGINT)

        assert locks_used(lambda: handler(signal.SIGINT, None)) == set()
        assert stop.is_set()
        await asyncio.sleep(0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
async def test_a_process_that_a_step_forks_ends_at_a_signal() -> None:
    """A handler in a replay may use multiprocessing, which ends its processes with SIGTERM and waits for them."""
    with stopping_at_interrupt("this page") as stop:
        child = os.fork()
        if not child:
            signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - a step may block

    assert os.WTERMSIG(status) == signal.SIGTERM
    assert not stop.is_set()


async def test_after_the_steps_signals_do_what_they_did_before() -> None:
    """The command has nothing left to finish."""
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.getsignal(number) for number in numbers]

    with stopping_at_interrupt("this page"):
        assert all(signal.getsignal(number) not in before for number in numbers)

    assert [signal.getsignal(number) for number in numbers] == before


async def test_signals_inside_of_a_signal_stop_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals that interrupt the handling of a signal ask for the same stop."""
    stopper, stop = Stopper(within=timedelta(days=9)), asyncio.Event()
    stopper.attach(asyncio.get_running_loop(), stop)
    write, left = os.write, [2]

    def interrupted(descriptor: int, content: bytes) -> int:
        if left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGTERM)
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", interrupted)
    before = signal.signal(signal.SIGTERM, stopper.ask)
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert left == [0]
    stopper.start()
    await stop.wait()


async def test_any_number_of_signals_is_no_error() -> None:
    """Nobody waits for a pipe that is full of requests to stop."""
    stopper, stop = Stopper(within=timedelta(days=9)), asyncio.Event()
    stopper.attach(asyncio.get_running_loop(), stop)

    for _ in range(100_000):
        stopper.ask()

    stopper.start()
    await stop.wait()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_signal_to_a_forked_child_does_not_stop_the_worker() -> None:
    """A handler may use multiprocessing, which ends its processes with SIGTERM."""
    stopper = Stopper(within=timedelta(days=9))
    child = os.fork()
    if not child:
        stopper.ask()
        os._exit(0)
    os.waitpid(child, 0)

    assert select.select([stopper.asked], [], [], 0)[0] == []
