"""What strains a worker: a handler that blocks its event loop, and files and memory that run out."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.rules import Succeeded
from receiver.core.types import AttemptOutcome, HandlerName
from receiver.worker.calls.runner import Runner
from receiver.worker.upkeep.strain import INTERVAL, MAX_MISSED, LoopWatch, Usage, UsageWatch, measure
from tests.doubles import NOON, Inline, event_of, pass_time, turns
from tests.worker.running import SECOND, claim, run


class Watched:
    """A watch that a test lets check, as often as the blocked event loop lasts."""

    def __init__(self) -> None:
        self.clock = VirtualClock(NOON)
        self.asked: list[Callable[[], None]] = []
        self.watch = LoopWatch(self.clock, self.asked.append, threading.get_ident())

    def block(self, seconds: int) -> None:
        """Let this time pass while the event loop cannot answer."""
        self.watch.check()
        for _ in range(seconds):
            self.clock.advance(SECOND)
            self.watch.check()

    def answer(self) -> None:
        """Let the event loop run."""
        while self.asked:
            self.asked.pop()()


async def test_a_handler_that_blocks_the_event_loop_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The log names handler and line while it blocks, and how long it did when it has ended."""
    watched = Watched()

    async def handler(event: Any) -> None:
        watched.block(25)

    await run(handler, watched.clock)
    watched.answer()

    blocked, free = caplog.records
    assert [event_of(one) for one in caplog.records] == ["event_loop_blocked", "event_loop_free"]
    assert blocked.__dict__["handler"] == free.__dict__["by"] == "h"
    assert blocked.__dict__["where"].startswith("tests/worker/test_strain.py:")
    assert (blocked.__dict__["seconds"], free.__dict__["seconds"]) == (MAX_MISSED, 25)
    assert "plain function" in blocked.__dict__["advice"]


async def test_a_handler_that_blocks_after_it_has_waited_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It is found in every step of its coroutine."""
    watched = Watched()

    async def handler(event: Any) -> None:
        await asyncio.sleep(0)
        watched.block(MAX_MISSED)

    await run(handler, watched.clock)

    assert [event_of(one) for one in caplog.records] == ["event_loop_blocked"]


async def test_a_handler_is_told_once_in_some_minutes(caplog: pytest.LogCaptureFixture) -> None:
    """A handler that blocks for each event does not fill the log."""
    watched = Watched()

    async def handler(event: Any) -> None:
        watched.block(MAX_MISSED)

    for _ in range(5):
        await run(handler, watched.clock, timeout=60)
        watched.answer()
    assert len(caplog.records) == 2
    watched.clock.advance(SECOND * 600)
    await run(handler, watched.clock)

    assert [event_of(one) for one in caplog.records][2:] == ["event_loop_blocked"]


async def test_a_loop_that_answers_is_not_blocked(caplog: pytest.LogCaptureFixture) -> None:
    """However many checks there are."""
    watched = Watched()

    async def handler(event: Any) -> None:
        for _ in range(20):
            watched.block(1)
            watched.answer()

    await run(handler, watched.clock)

    assert caplog.records == []


async def test_a_task_that_a_handler_left_behind_is_told_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    """No handler awaits it, so the line alone says whose it is."""
    watched = Watched()

    async def left_behind() -> None:
        watched.block(MAX_MISSED)

    await asyncio.create_task(left_behind())

    [record] = caplog.records
    assert record.__dict__["handler"] is None
    assert record.__dict__["where"].startswith("tests/worker/test_strain.py:")


async def test_the_thread_of_a_watch_gets_answers_from_its_loop() -> None:
    """The answer comes through the loop that ran when the watch was made."""
    watch = LoopWatch.of_running_loop(VirtualClock(NOON))

    checking = threading.Thread(target=watch.check)
    checking.start()
    checking.join()
    assert watch.waits
    await turns()

    assert not watch.waits


async def test_an_async_handler_that_blocks_past_its_timeout_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing could cancel it, so it has succeeded; the log says so, and the attempt is overdue."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        clock.advance(SECOND * 8)

    ended = await run(handler, clock, timeout=3)

    [record] = caplog.records
    assert (ended.result, ended.attempt.overdue) == (Succeeded(), True)
    assert event_of(record) == "attempt_late"
    assert (record.__dict__["seconds"], record.__dict__["timeout_s"]) == (8, 3)
    assert "blocked the event loop" in record.__dict__["reason"]
    assert "plain function" in record.__dict__["advice"]


async def test_an_async_handler_that_refuses_to_be_cancelled_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It caught the CancelledError of its time-out and went on."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        for _ in range(2):
            try:
                await clock.sleep(SECOND * 3)
            except asyncio.CancelledError:
                continue

    running = asyncio.create_task(run(handler, clock, timeout=1))
    await pass_time(clock, SECOND)
    await pass_time(clock, SECOND * 5)
    ended = await running

    [record] = caplog.records
    assert (ended.result, ended.attempt.overdue) == (Succeeded(), True)
    assert event_of(record) == "attempt_late"
    assert "CancelledError" in record.__dict__["advice"]


async def test_a_late_handler_is_told_once_in_some_minutes(caplog: pytest.LogCaptureFixture) -> None:
    """Each of its attempts is recorded as overdue all the same."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        clock.advance(SECOND * 8)

    runner = Runner(clock, Inline())
    ended = [await runner.run(claim(handler, timeout=3)) for _ in range(3)]

    assert [one.attempt.overdue for one in ended] == [True, True, True]
    assert len(caplog.records) == 1


async def test_a_handler_that_is_cancelled_in_time_is_not_late(caplog: pytest.LogCaptureFixture) -> None:
    """Its attempt has failed, which is told anyway; a heartbeat starts the time anew."""
    clock = VirtualClock(NOON)

    async def slow(event: Any) -> None:
        await clock.sleep(SECOND * 9)

    async def beating(event: Any, ctx: Any) -> None:
        for _ in range(5):
            clock.advance(SECOND * 2)
            ctx.heartbeat()

    running = asyncio.create_task(run(slow, clock, timeout=3))
    await pass_time(clock, SECOND * 3)
    ended = await running

    assert (ended.attempt.outcome, ended.attempt.overdue) == (AttemptOutcome.TIMED_OUT, False)
    assert not (await run(beating, clock, timeout=3)).attempt.overdue
    assert caplog.records == []


MEBIBYTE = 1024 * 1024
START = Usage(20, 256, 50 * MEBIBYTE)


def looking(usages: Sequence[Usage]) -> UsageWatch:
    """Return one that measures these, one at each look."""
    left = iter([START, *usages])
    return UsageWatch(100 * MEBIBYTE, lambda: next(left))


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (Usage(240, 256, MEBIBYTE), None),
        (Usage(241, 256, MEBIBYTE), "241 of at most 256 files are open"),
        (Usage(960, 1024, MEBIBYTE), None),
        (Usage(961, 1024, MEBIBYTE), "961 of at most 1024 files are open"),
        (Usage(20, 256, 100 * MEBIBYTE), None),
        (Usage(20, 256, 101 * MEBIBYTE), "106 MB of memory are in use, and MAX_MEMORY is 105 MB"),
    ],
)
def test_the_end_of_files_or_memory_is_seen_before_it_comes(
    usage: Usage, words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest is for giving the work back."""
    assert looking([usage]).check() is (words is not None)
    assert [vars(record)["reason"] for record in caplog.records] == ([words] if words else [])


def test_the_handler_is_named_that_ran_while_it_grew(caplog: pytest.LogCaptureFixture) -> None:
    """By the growth since the start; what another handler gave back does not count for it."""
    usages = [Usage(files, 256, files * MEBIBYTE // 4) for files in (25, 100, 95, 200, 245)]
    usage = looking(usages)
    for handlers in (["good"], ["leak"], ["good"], ["leak", "good"], []):
        for handler in handlers:
            usage.note(HandlerName(handler))
        usage.check()

    [record] = caplog.records
    assert vars(record)["suspects"] == ["leak"]


def test_handlers_that_always_run_together_are_named_together(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing tells them apart; one that began later and alone is not among them."""
    usage = looking([Usage(files, 256, 0) for files in (100, 240, 245)])
    for handlers in (["b", "a"], ["b", "a"], ["late"]):
        for handler in handlers:
            usage.note(HandlerName(handler))
        usage.check()

    [record] = caplog.records
    assert vars(record)["suspects"] == ["a", "b"]


def test_no_handler_is_blamed_when_none_ran(caplog: pytest.LogCaptureFixture) -> None:
    """The limit may simply be too low."""
    looking([Usage(20, 256, 200 * MEBIBYTE)]).check()

    [record] = caplog.records
    assert vars(record)["suspects"] == []
    assert "the limit may be too low" in vars(record)["advice"]
    assert "handlers keep" not in record.getMessage()
    assert "suspects" not in record.getMessage()


async def test_the_worker_is_stopped_once(caplog: pytest.LogCaptureFixture) -> None:
    """It checks no more afterwards."""
    caplog.set_level(logging.ERROR)
    usage, clock, stop = looking([START, START, Usage(250, 256, 0)]), VirtualClock(NOON), asyncio.Event()
    watching = asyncio.create_task(usage.watch(stop, clock))
    await turns()
    for _ in range(2):
        assert not stop.is_set()
        await pass_time(clock, INTERVAL)

    await watching
    assert stop.is_set()
    assert usage.found
    assert [event_of(record) for record in caplog.records] == ["worker_exhausted"]


def test_this_process_is_measured() -> None:
    """It has files open, fewer than allowed."""
    usage = measure()

    assert 0 < usage.files < usage.max_files
    assert usage.memory >= 0
