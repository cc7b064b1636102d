"""The time-outs of attempts, and heartbeats."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.rules import Failed, Refused, Succeeded
from receiver.core.types import AttemptOutcome
from receiver.routing.context import Context
from tests.doubles import NOON, Busy, event_of, pass_time, soon, turns
from tests.worker.running import SECOND, raising, run


async def test_an_async_handler_is_cancelled_at_its_timeout() -> None:
    """The attempt has failed, and the error says why."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        await clock.sleep(SECOND * 100)

    running = asyncio.create_task(run(handler, clock, timeout=30))
    await turns()
    clock.advance(SECOND * 30)
    ended = await soon(running)

    assert (ended.attempt.outcome, ended.result) == (AttemptOutcome.TIMED_OUT, Failed())
    assert ended.attempt.error == "took longer than 30 s and was cancelled"
    assert (ended.attempt.started_at, ended.attempt.ended_at) == (NOON, NOON + SECOND * 30)


async def test_an_async_handler_in_time_is_left_alone() -> None:
    """To the last microsecond."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        await clock.sleep(SECOND * 30 - timedelta(microseconds=1))

    running = asyncio.create_task(run(handler, clock, timeout=30))
    await turns()
    clock.advance(SECOND * 30 - timedelta(microseconds=1))

    assert (await soon(running)).result == Succeeded()


async def test_a_timeout_error_of_the_handler_itself_is_an_ordinary_failure() -> None:
    """It is not the time-out of the attempt."""
    ended = await run(raising(TimeoutError("the database"))[0])

    assert ended.attempt.outcome is AttemptOutcome.FAILED
    assert ended.attempt.error == "TimeoutError: the database"


async def test_an_error_while_a_cancelled_handler_cleans_up_is_recorded() -> None:
    """The attempt has failed either way."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        try:
            await clock.sleep(SECOND * 100)
        finally:
            raise ValueError("while cleaning up")

    running = asyncio.create_task(run(handler, clock, timeout=30))
    await turns()
    clock.advance(SECOND * 30)

    assert (await soon(running)).attempt.error == "ValueError: while cleaning up"


async def test_a_plain_handler_past_its_timeout_is_overdue(caplog: pytest.LogCaptureFixture) -> None:
    """It runs on and may still succeed. The log line comes when its time is up."""
    clock = VirtualClock(NOON)

    def handler(event: Any) -> None:
        clock.advance(SECOND * 61)
        assert [event_of(record) for record in caplog.records] == ["attempt_overdue"]

    ended = await run(handler, clock)

    assert ended.attempt.error is None
    assert (ended.attempt.outcome, ended.attempt.overdue) == (AttemptOutcome.SUCCEEDED, True)


async def test_a_plain_handler_in_time_is_not_overdue(caplog: pytest.LogCaptureFixture) -> None:
    """Its timer is cancelled when it ends."""
    clock = VirtualClock(NOON)
    ended = await run(lambda event: clock.advance(SECOND * 59), clock)
    clock.advance(SECOND * 100)

    assert not ended.attempt.overdue
    assert caplog.records == []


async def test_a_plain_handler_that_waits_for_a_thread_is_not_overdue(caplog: pytest.LogCaptureFixture) -> None:
    """Its time starts when it starts: a full pool is not its fault."""
    clock = VirtualClock(NOON)
    threads = Busy()
    running = asyncio.create_task(run(lambda event: None, clock, threads=threads))
    await turns()
    clock.advance(SECOND * 61)
    threads.run_all()
    ended = await soon(running)

    assert not ended.attempt.overdue
    assert caplog.records == []


async def test_a_heartbeat_starts_the_timeout_anew() -> None:
    """It is a plain call in an async handler."""
    clock = VirtualClock(NOON)

    async def handler(event: Any, ctx: Context) -> None:
        for _ in range(5):
            await clock.sleep(SECOND * 20)
            ctx.heartbeat()
        await clock.sleep(SECOND * 100)

    running = asyncio.create_task(run(handler, clock, timeout=30))
    for _ in range(13):
        await pass_time(clock, SECOND * 10)
    ended = await soon(running)

    assert ended.attempt.outcome is AttemptOutcome.TIMED_OUT
    assert ended.attempt.ended_at - ended.attempt.started_at == SECOND * 130


async def test_a_heartbeat_in_a_thread_keeps_a_plain_handler_from_being_overdue() -> None:
    """It is the same call."""
    clock = VirtualClock(NOON)

    def handler(event: Any, ctx: Context) -> None:
        for _ in range(5):
            clock.advance(SECOND * 59)
            ctx.heartbeat()

    assert not (await run(handler, clock)).attempt.overdue


async def test_a_timeout_is_a_timeout_error_to_the_policy() -> None:
    """So `give_up_on` can name it."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        await clock.sleep(SECOND * 100)

    running = asyncio.create_task(run(handler, clock, timeout=30, give_up_on=TimeoutError))
    await pass_time(clock, SECOND * 30)

    assert (await soon(running)).result == Refused()
