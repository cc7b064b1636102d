"""Signals: each subscriber gets all records in order, and none delays or disturbs another."""

import asyncio
import functools
import gc
import queue
import threading

import blinker
import pytest

from receiver.signals.subscribers import Signal
from tests.doubles import LONG
from tests.signals.watching import delivered, kept


def test_a_subscriber_gets_every_record_in_order_in_a_thread_of_its_own(signal: Signal[int]) -> None:
    """It does not run in the thread that emits."""
    seen: list[int] = []
    threads: set[threading.Thread] = set()

    @signal.connect
    def keep(number: int) -> None:
        seen.append(number)
        threads.add(threading.current_thread())

    for number in range(1_000):
        signal.emit(number)
    delivered()

    assert seen == list(range(1_000))
    assert len(threads) == 1
    assert threads != {threading.current_thread()}
    assert all(thread.daemon for thread in threads)


def test_an_async_subscriber_gets_every_record_in_order(signal: Signal[int]) -> None:
    """The records come one after the other, in one event loop."""
    seen: list[int] = []
    loops: set[asyncio.AbstractEventLoop] = set()

    @signal.connect
    async def keep(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(number)
        loops.add(asyncio.get_running_loop())

    for number in range(1_000):
        signal.emit(number)
    delivered()

    assert seen == list(range(1_000))
    assert len(loops) == 1


def test_an_idle_async_subscriber_is_woken_by_each_record(signal: Signal[int]) -> None:
    """Its loop has nothing to do before."""
    arrived: queue.Queue[int] = queue.Queue()

    @signal.connect
    async def keep(number: int) -> None:
        arrived.put(number)

    for number in range(50):
        signal.emit(number)
        assert arrived.get(timeout=LONG) == number


def test_tasks_of_an_async_subscriber_run_between_records(signal: Signal[int]) -> None:
    """Its event loop runs while it waits for the next record."""
    ended = threading.Event()
    tasks = []

    async def later() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        ended.set()

    @signal.connect
    async def start(number: int) -> None:
        tasks.append(asyncio.create_task(later()))

    signal.emit(1)

    assert ended.wait(LONG)


def test_connect_is_a_decorator_that_returns_the_function(signal: Signal[int]) -> None:
    """The function is unchanged, as with blinker."""
    _, keep = kept()

    assert signal.connect(keep) is keep


def test_closures_and_bound_methods_stay_connected(signal: Signal[int]) -> None:
    """Blinker holds them weakly and would forget them."""
    seen: list[tuple[str, int]] = []

    class Watcher:
        def watch(self, number: int) -> None:
            seen.append(("method", number))

    def connect() -> None:
        @signal.connect
        def closure(number: int) -> None:
            seen.append(("closure", number))

        signal.connect(Watcher().watch)
        signal.connect(functools.partial(lambda name, number: seen.append((name, number)), "partial"))

    connect()
    gc.collect()
    signal.emit(7)
    delivered()

    assert sorted(seen) == [("closure", 7), ("method", 7), ("partial", 7)]


def test_a_bound_method_can_be_disconnected_again(signal: Signal[int]) -> None:
    """Each access to it gives another, equal object."""

    class Watcher:
        def watch(self, number: int) -> None: ...

    watcher = Watcher()
    signal.connect(watcher.watch)
    signal.disconnect(watcher.watch)

    assert not signal.receivers


def test_an_object_with_an_async_call_is_an_async_subscriber(signal: Signal[int]) -> None:
    """Handlers may be such objects too."""
    seen: list[int] = []

    class Watcher:
        async def __call__(self, number: int) -> None:
            seen.append(number)

    signal.connect(Watcher())
    signal.emit(1)
    delivered()

    assert seen == [1]


def test_a_subscriber_connected_twice_gets_each_record_once(signal: Signal[int]) -> None:
    """Blinker does the same."""
    seen, keep = kept()
    signal.connect(keep)
    signal.connect(keep)

    signal.emit(1)
    delivered()

    assert seen == [1]


def test_a_subscriber_of_two_signals_gets_their_records_in_order(signal: Signal[int]) -> None:
    """It has one thread and one queue, also after it leaves one of the signals."""
    other = Signal[int]("others")
    seen, keep = kept()
    signal.connect(keep)
    with other.connected_to(keep):
        for number in range(100):
            (signal if number % 2 else other).emit(number)
    signal.emit(100)
    delivered()

    assert seen == list(range(101))
    assert not other.receivers


def test_queued_records_arrive_after_disconnect_and_no_others(signal: Signal[int]) -> None:
    """Then the thread ends."""
    seen: list[int] = []
    threads: list[threading.Thread] = []
    go = threading.Event()

    @signal.connect
    def keep(number: int) -> None:
        threads.append(threading.current_thread())
        assert go.wait(LONG)
        seen.append(number)

    signal.emit(1)
    signal.emit(2)
    signal.disconnect(keep)
    signal.emit(3)
    go.set()
    delivered()
    threads[0].join(LONG)

    assert seen == [1, 2]
    assert not threads[0].is_alive()


def test_the_loop_of_an_async_subscriber_is_closed_after_disconnect(signal: Signal[int]) -> None:
    """The tasks that it has started are cancelled."""
    threads: queue.Queue[threading.Thread] = queue.Queue()
    cancelled = threading.Event()
    tasks = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    @signal.connect
    async def start(number: int) -> None:
        tasks.append(asyncio.create_task(for_ever()))
        await asyncio.sleep(0)
        threads.put(threading.current_thread())

    signal.emit(1)
    thread = threads.get(timeout=LONG)
    signal.disconnect(start)
    thread.join(LONG)

    assert not thread.is_alive()
    assert cancelled.is_set()


def test_disconnecting_an_unknown_function_does_nothing(signal: Signal[int]) -> None:
    """Blinker does the same."""
    signal.disconnect(print)


def test_connected_to_connects_for_a_block(signal: Signal[int]) -> None:
    """Tests use this method of blinker. Records from within the block arrive."""
    seen, keep = kept()
    with signal.connected_to(keep):
        signal.emit(1)
    signal.emit(2)
    delivered()

    assert seen == [1]


def test_a_muted_signal_passes_no_record(signal: Signal[int]) -> None:
    """Muting is a feature of blinker."""
    seen, keep = kept()
    signal.connect(keep)
    with signal.muted():
        signal.emit(1)
    signal.emit(2)
    delivered()

    assert seen == [2]


def test_blinkers_own_send_reaches_subscribers_too(signal: Signal[int]) -> None:
    """A Signal is one of blinker's signals."""
    seen, keep = kept()
    signal.connect(keep)
    assert isinstance(signal, blinker.Signal)

    signal.send(5)
    delivered()

    assert seen == [5]


def test_a_subscriber_with_a_wrong_signature_is_refused(signal: Signal[int]) -> None:
    """The error comes when it is connected, not with the first record."""

    def wants_two(one: int, two: int) -> None: ...

    def wants_none() -> None: ...

    for wrong in (wants_two, wants_none):
        with pytest.raises(TypeError, match=f"{wrong.__name__} must take one argument"):
            signal.connect(wrong)
    assert not signal.receivers


def test_unsupported_options_of_blinker_are_refused(signal: Signal[int]) -> None:
    """They are not ignored."""
    with pytest.raises(ValueError, match="held until it is disconnected"):
        signal.connect(print, weak=True)
    with pytest.raises(ValueError, match="every sender"):
        signal.connect(print, sender="somebody")
    with pytest.raises(ValueError, match="every sender"):
        signal.connect_via("somebody")(print)


# --- the ones that behave badly
