"""Threads for plain functions: how many there are, how results come back, and how they stop."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from unittest.mock import Mock

import pytest

from receiver.worker.calls.pools import HandlerThreads, ThreadResults
from tests.doubles import LONG, soon, turns


@pytest.fixture
def threads() -> Iterator[HandlerThreads]:
    """Two threads, stopped at the end."""
    made = HandlerThreads(2)
    yield made
    made.stop()


async def test_no_more_functions_run_at_one_time_than_there_are_threads(threads: HandlerThreads) -> None:
    """The others wait for their turn, and all results arrive."""
    results = ThreadResults(threads)
    both = threading.Barrier(2)
    names: list[str] = []

    def note(number: int) -> int:
        names.append(threading.current_thread().name)
        both.wait(LONG)
        return number

    values = await soon(asyncio.gather(*[results.run(partial(note, number)) for number in range(6)]))

    assert values == list(range(6))
    assert set(names) == {"handler_1", "handler_2"}


async def test_results_that_are_there_together_wake_the_loop_once() -> None:
    """A wake-up is a system call."""
    waiting: list[Callable[[], None]] = []

    class Later:
        def submit(self, call: Callable[[], None], /) -> None:
            waiting.append(call)

    results = ThreadResults(Later())
    futures = [results.run(partial(int, number)) for number in range(3)]
    loop = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe
    wakes = Mock(side_effect=wake)
    loop.call_soon_threadsafe = wakes  # type: ignore[method-assign]
    try:
        for call in waiting[:2]:
            call()
        await turns()
        waiting[2]()
        assert await soon(asyncio.gather(*futures)) == [0, 1, 2]
    finally:
        loop.call_soon_threadsafe = wake  # type: ignore[method-assign]

    assert wakes.call_count == 2


async def test_a_result_that_nobody_awaits_any_more_is_dropped() -> None:
    """The others arrive nevertheless."""
    waiting: list[Callable[[], None]] = []

    class Later:
        def submit(self, call: Callable[[], None], /) -> None:
            waiting.append(call)

    results = ThreadResults(Later())
    cancelled, awaited = results.run(lambda: 1), results.run(lambda: 2)
    cancelled.cancel()
    for call in waiting:
        call()

    assert await soon(awaited) == 2


async def test_stopped_threads_end_and_start_nothing_more() -> None:
    """A function that runs may finish; one that waits for a thread is dropped."""
    threads = HandlerThreads(1)
    begun, go_on = threading.Event(), threading.Event()
    ran: list[str] = []
    threads_seen: list[threading.Thread] = []
    ended = threading.Event()

    def first() -> None:
        threads_seen.append(threading.current_thread())
        begun.set()
        go_on.wait(LONG)
        ran.append(threading.current_thread().name)

    threads.submit(first)
    await asyncio.to_thread(begun.wait, LONG)
    (thread,) = threads_seen
    threads.submit(ended.set)
    threads.stop()
    go_on.set()
    await asyncio.to_thread(thread.join, LONG)

    assert (ran, ended.is_set(), thread.is_alive()) == (["handler_1"], False, False)
    assert thread.daemon


async def test_a_call_without_a_thread_fails_and_later_calls_run(
    threads: HandlerThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may refuse threads for a time. What has failed must not run later, beside its next attempt."""
    results, ran = ThreadResults(threads), list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(RuntimeError):
            results.run(partial(ran.append, "refused"))

    await soon(results.run(partial(ran.append, "later")))

    assert ran == ["later"]


async def test_calls_without_a_thread_of_their_own_wait_for_another(
    threads: HandlerThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are as many threads as wanted when the system allows it again."""
    results, both = ThreadResults(threads), threading.Barrier(2)
    await soon(results.run(partial(int, 1)))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        assert await soon(results.run(partial(int, 2))) == 2

    waits = [results.run(partial(both.wait, LONG)) for _ in range(2)]

    assert sorted(await soon(asyncio.gather(*waits))) == [0, 1]
