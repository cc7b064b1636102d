"""Signals: a subscriber that fails, blocks or ends its thread affects nobody else."""

import asyncio
import gc
import logging
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest

from receiver.signals import subscribers
from receiver.signals.subscribers import MAX_WAITING, Quiet, Signal, dropped, flush
from tests.doubles import LONG, event_of
from tests.signals.watching import AT_ONCE, blocked, delivered, kept


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_subscriber_that_raises_gets_the_next_record(
    signal: Signal[int], caplog: pytest.LogCaptureFixture, error: BaseException, in_loop: bool
) -> None:
    """Others are not affected, and the log has one line."""
    seen, keep = kept()
    tried: list[int] = []

    def fail(number: int) -> None:
        tried.append(number)
        raise error

    async def fail_in_loop(number: int) -> None:
        fail(number)

    signal.connect(fail_in_loop if in_loop else fail)
    signal.connect(keep)
    for number in range(100):
        signal.emit(number)
    delivered()

    assert tried == seen == list(range(100))
    [record] = [record for record in caplog.records if event_of(record) == "subscriber_failed"]
    assert record.levelno == logging.ERROR
    assert record.__dict__["subscriber"].endswith("fail_in_loop" if in_loop else "fail")
    assert record.__dict__["record"] == "int"
    assert record.exc_info
    assert record.exc_info[1] is error


def test_a_subscriber_that_cancels_its_own_task_gets_the_next_record(signal: Signal[int]) -> None:
    """The cancellation ends with its record."""
    seen: list[int] = []

    @signal.connect
    async def cancel(number: int) -> None:
        seen.append(number)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    for number in range(3):
        signal.emit(number)
    delivered()

    assert seen == [0, 1, 2]


def test_a_coroutine_that_nobody_awaits_is_logged(signal: Signal[int], caplog: pytest.LogCaptureFixture) -> None:
    """A lambda around an async function looks plain until it is called."""

    async def keep(number: int) -> None: ...

    signal.connect(lambda number: keep(number))
    signal.emit(1)
    delivered()
    gc.collect()

    [record] = caplog.records
    assert record.exc_info
    assert "write it as `async def`" in str(record.exc_info[1])


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_blocked_subscriber_delays_neither_sender_nor_others(signal: Signal[int], in_loop: bool) -> None:
    """An async subscriber that blocks its event loop blocks only itself."""
    arrived: queue.Queue[int] = queue.Queue()
    arrived_in_loop: queue.Queue[int] = queue.Queue()

    async def keep(number: int) -> None:
        arrived_in_loop.put(number)

    with blocked(signal, in_loop=in_loop):
        signal.connect(arrived.put)
        signal.connect(keep)
        for number in range(1, 100):
            signal.emit(number)

        assert [arrived.get(timeout=LONG) for _ in range(99)] == list(range(1, 100))
        assert [arrived_in_loop.get(timeout=LONG) for _ in range(99)] == list(range(1, 100))


def test_records_beyond_the_queue_are_dropped_and_counted(
    signal: Signal[int], caplog: pytest.LogCaptureFixture
) -> None:
    """The newest are dropped. The log says so at once, and the number when the subscriber has caught up."""
    seen: list[int] = []
    begun, end = threading.Event(), threading.Event()

    def slow_one(number: int) -> None:
        begun.set()
        assert end.wait(LONG)
        seen.append(number)

    signal.connect(slow_one)
    signal.emit(0)
    assert begun.wait(LONG)
    for number in range(1, MAX_WAITING + 101):
        signal.emit(number)
    dropped_counts = [record.__dict__["dropped"] for record in caplog.records]
    end.set()
    delivered()

    assert seen == list(range(MAX_WAITING + 1))
    name = next(name for name in dropped() if name.endswith("slow_one"))
    assert dropped()[name] == 100
    assert dropped_counts == [1]
    assert [event_of(record) for record in caplog.records] == ["subscriber_too_slow"] * 2
    assert sum(record.__dict__["dropped"] for record in caplog.records) == 100
    assert {record.__dict__["subscriber"] for record in caplog.records} == {name}


def test_a_flush_does_not_wait_for_ever(signal: Signal[int], caplog: pytest.LogCaptureFixture) -> None:
    """It says which subscriber was too slow."""
    with blocked(signal) as slow:
        assert not flush(AT_ONCE)

    [record] = caplog.records
    assert event_of(record) == "subscribers_unfinished"
    assert [name.rpartition(".")[2] for name in record.__dict__["subscribers"]] == [slow.__name__]


def test_a_flush_without_subscribers_returns_at_once() -> None:
    """There is nothing to wait for."""
    assert flush(AT_ONCE)


def test_a_thread_that_cannot_start_now_starts_with_a_later_record(
    signal: Signal[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process at its limit of threads loses no record."""
    seen, keep = kept()
    signal.connect(keep)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        signal.emit(1)
        signal.emit(2)
    signal.emit(3)
    delivered()

    assert seen == [1, 2, 3]
    assert [event_of(record) for record in caplog.records] == ["subscriber_failed"]


def test_an_observer_is_called_at_once_and_may_fail(signal: Signal[int], caplog: pytest.LogCaptureFixture) -> None:
    """Its error reaches neither the sender nor other subscribers."""
    seen: list[int] = []
    others, keep = kept()

    def fail(number: int) -> None:
        raise ValueError("no")

    signal.observe(fail)
    signal.observe(seen.append)
    signal.connect(keep)
    signal.emit(1)
    assert seen == [1]
    delivered()

    assert others == [1]
    assert [event_of(record) for record in caplog.records] == ["subscriber_failed"]


# --- processes


def run(program: str) -> str:
    """Run a program to its end and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=LONG, check=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_process_ends_while_a_subscriber_blocks(in_loop: bool) -> None:
    """The thread is a daemon, and the last flush has a limit."""
    printed = run(f"""
import logging, threading
from datetime import timedelta
from receiver.signals.subscribers import Signal, flush
logging.disable()
signal, begun = Signal("numbers"), threading.Event()
{"async " if in_loop else ""}def block(number):
    begun.set()
    threading.Event().wait()
signal.connect(block)
signal.emit(1)
begun.wait()
print(flush(timedelta(milliseconds=1)))
""")

    assert printed == "False\n"


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_forked_process_delivers_its_own_records(in_loop: bool) -> None:
    """A server may load the program and then fork; a fork has no threads."""
    printed = run(f"""
import os
from datetime import timedelta
from receiver.signals.subscribers import Signal, flush
signal = Signal("numbers")
{"async " if in_loop else ""}def tell(number):
    os.write(1, b"%d by %d\\n" % (number, os.getpid() != parent))
parent = os.getpid()
signal.connect(tell)
signal.emit(1)
assert flush(timedelta(seconds={LONG}))
if os.fork() == 0:
    signal.emit(2)
    assert flush(timedelta(seconds={LONG}))
    os._exit(0)
os.wait()
signal.emit(3)
assert flush(timedelta(seconds={LONG}))
""")

    assert printed == "1 by 0\n2 by 1\n3 by 0\n"


# --- Quiet


def test_a_kind_of_message_is_logged_once_a_minute() -> None:
    """The first comes at once. The next has the number of those kept back, and kinds are independent."""
    quiet = Quiet()

    assert [quiet.count("a", now) for now in (0.0, 1.0, 59.9, 60.0, 61.0, 125.0)] == [1, 0, 0, 3, 0, 2]
    assert [quiet.count("b", now) for now in (126.0, 127.0)] == [1, 0]


def test_the_memory_for_kinds_is_limited() -> None:
    """A program may make a new class for every error."""
    quiet = Quiet()
    for number in range(10_000):
        assert quiet.count(f"kind {number}", 0.0) == 1

    assert len(quiet) <= subscribers.MAX_KINDS


@dataclass(frozen=True)
class Named:
    """A subscriber whose `repr` has its name, and that fails."""

    name: str

    def __call__(self, number: int) -> None:
        raise ValueError(number)


def test_the_log_names_a_subscriber_by_its_class(signal: Signal[int], caplog: pytest.LogCaptureFixture) -> None:
    """The `repr` of an object may contain a secret."""
    signal.connect(Named("secret"))
    signal.emit(1)
    delivered()

    assert [record.__dict__["subscriber"] for record in caplog.records] == [f"{__name__}.Named"]
