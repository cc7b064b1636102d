"""The thread of a blocking connection: order, results, errors, and callers that go away."""

import asyncio
import threading

import pytest

from receiver.stores.sql.connection import ConnectionThread
from tests.doubles import soon


async def test_calls_run_in_their_order_and_in_one_thread() -> None:
    """Each caller gets the result of its own call."""
    thread = ConnectionThread("calls")
    seen: list[int] = []

    def note(number: int) -> tuple[int, str]:
        seen.append(number)
        return number, threading.current_thread().name

    results = await soon(asyncio.gather(*[thread.call(lambda n=n: note(n)) for n in range(50)]))  # type: ignore[misc]
    thread.stop()
    thread.join()

    assert seen == list(range(50))
    assert results == [(number, "calls") for number in range(50)]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
async def test_an_error_reaches_the_caller_and_the_thread_goes_on(error: BaseException) -> None:
    """Whatever the function raises."""
    thread = ConnectionThread("errors")

    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await soon(thread.call(fail))
    assert await soon(thread.call(lambda: "next")) == "next"
    thread.stop()
    thread.join()


async def test_a_call_goes_on_when_its_caller_gives_up() -> None:
    """Its result is dropped, and the next call gets its own."""
    thread = ConnectionThread("given up")
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        may_end.wait()
        ended.set()
        return "dropped"

    first = thread.call(work)
    await asyncio.to_thread(begun.wait)
    first.cancel()
    second = thread.call(lambda: "kept")
    may_end.set()

    assert await soon(second) == "kept"
    assert first.cancelled()
    assert ended.is_set()
    thread.stop()
    thread.join()


def test_a_call_ends_quietly_when_its_event_loop_has_gone() -> None:
    """The thread ends as it was told, and nothing is written to standard error."""
    thread = ConnectionThread("left alone")
    may_end = threading.Event()

    async def call() -> None:
        thread.call(may_end.wait)
        thread.stop()

    asyncio.run(call())
    may_end.set()
    thread.join()


def test_a_thread_that_nobody_stops_does_not_keep_the_process_alive() -> None:
    """The interpreter does not wait for daemons."""
    thread = ConnectionThread("a daemon")
    (found,) = [one for one in threading.enumerate() if one.name == "a daemon"]

    assert found.daemon
    thread.stop()
    thread.join()
