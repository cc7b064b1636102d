"""One attempt: whatever a handler does ends up in the result."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.clock import VirtualClock
from receiver.context import Context
from receiver.decisions import Failed, Refused, Succeeded
from receiver.dispatch.runner import Claimed, Ended, Runner, describe
from receiver.errors import GiveUp, Retry
from receiver.events import CrawlPage, Event, UnknownEvent
from receiver.records import StoredDelivery, WorkItem
from receiver.routing import Router
from receiver.types import AttemptOutcome, HandlerName, Trigger
from tests.doubles import NOON, Busy, Inline, body_of, delivery, soon, turns

SECOND = timedelta(seconds=1)


def job(
    function: Callable[..., Any], *, body: bytes | None = None, event: Event | None = None, **options: Any
) -> Claimed:
    router = Router()
    router.add(function, "*", name="h", **options)
    source = StoredDelivery(7, 2, delivery("k", body=body_of(id="j") if body is None else body))
    item = WorkItem(1, HandlerName("h"), 3, 0, Trigger.RETRY, source)
    return Claimed(item, router[HandlerName("h")], event)


async def run(
    function: Callable[..., Any],
    clock: VirtualClock | None = None,
    *,
    threads: Executor | None = None,
    **options: Any,
) -> Ended:
    ended: Ended = await soon(
        Runner(clock or VirtualClock(NOON), threads or Inline()).run(job(function, **options))
    )
    return ended


def raising(error: BaseException) -> list[Callable[[Any], Any]]:
    """Return an async and a plain handler that raise this."""

    async def async_handler(event: Any) -> None:
        raise error

    def plain_handler(event: Any) -> None:
        raise error

    return [async_handler, plain_handler]


# --- calling


async def test_an_async_handler_is_awaited() -> None:
    """With the event of its class."""
    seen: list[Event] = []

    async def handler(event: CrawlPage) -> None:
        await asyncio.sleep(0)
        seen.append(event)

    ended = await run(handler)

    assert (ended.attempt.outcome, ended.result) == (AttemptOutcome.SUCCEEDED, Succeeded())
    assert (ended.attempt.error, ended.attempt.traceback, ended.attempt.overdue) == (None, None, False)
    assert isinstance(seen[0], CrawlPage)


async def test_a_plain_handler_runs_in_a_thread() -> None:
    """With the context variables of its task."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("seen")
    seen: list[object] = []
    with ThreadPoolExecutor(1) as threads:
        ended = await run(lambda event: seen.extend([threading.get_ident(), variable.get()]), threads=threads)

    assert ended.result == Succeeded()
    assert seen[1] == "seen"
    assert seen[0] != threading.get_ident()


async def test_the_context_tells_about_attempt_and_delivery() -> None:
    """All that its docstring promises."""
    seen: list[Context] = []
    await run(lambda event, ctx: seen.append(ctx))

    (ctx,) = seen
    assert (ctx.handler, ctx.attempt, ctx.trigger, ctx.now) == ("h", 3, Trigger.RETRY, NOON)
    assert (ctx.delivery.key, ctx.delivery.duplicates, ctx.delivery.received_at) == ("k", 2, NOON)
    assert ctx.delivery.size == len(body_of(id="j"))
    assert ctx.delivery.headers == (("content-type", "application/json"),)


async def test_the_handlers_log_names_handler_and_delivery(caplog: pytest.LogCaptureFixture) -> None:
    """Also with fields of its own."""
    caplog.set_level(logging.INFO)
    await run(lambda event, ctx: ctx.log.info("hello"))

    (record,) = [record for record in caplog.records if record.getMessage() == "hello"]
    fields = vars(record)
    assert (fields["handler"], fields["key"], fields["attempt"]) == ("h", "k", 3)


async def test_an_event_that_was_read_already_is_not_read_again() -> None:
    """The worker that routed it has it at hand."""
    event = CrawlPage(job_id="mine")
    seen: list[Event] = []
    await run(seen.append, event=event)

    assert seen == [event]


async def test_an_unreadable_body_is_handed_on_as_an_unknown_event() -> None:
    """To handlers that want everything."""
    seen: list[Event] = []
    await run(seen.append, body=b"not json")

    assert isinstance(seen[0], UnknownEvent)


async def test_where_is_asked_again() -> None:
    """When it raised at routing, here it fails the attempt; when it says no, there is nothing to do."""
    called: list[Event] = []

    ended = await run(called.append, where=lambda event: event.nothing)
    assert (ended.attempt.outcome, ended.result) == (AttemptOutcome.FAILED, Failed())
    assert "AttributeError" in str(ended.attempt.error)

    assert (await run(called.append, where=lambda event: False)).result == Succeeded()
    assert called == []


# --- failing


class BadText(Exception):
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class BadBase(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no such page"), "ValueError: no such page"),
        (ValueError(), "ValueError"),
        (ValueError("two\n  lines\tof   text"), "ValueError: two lines of text"),
        (KeyError("k"), "KeyError: 'k'"),
        (Retry("busy"), "Retry: busy"),
        (GiveUp("gone"), "GiveUp: gone"),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (BadText(), "BadText: <exception str() failed>"),
        (BadBase("b"), "BadBase: b"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError("mine"), "CancelledError: mine"),
        (StopIteration(), "StopIteration"),
        (StopAsyncIteration(), "StopAsyncIteration"),
        (
            ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
            "ExceptionGroup: several (2 sub-exceptions)",
        ),
        (ValueError("\ud800 \0 \x1b"), "ValueError: \\ud800 \\x00 \x1b"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError: 'utf-8'"),
        (MemoryError(), "MemoryError"),
        (RecursionError("deep"), "RecursionError: deep"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.parametrize("kind", [0, 1], ids=["async", "plain"])
@pytest.mark.parametrize("threads", [Inline, lambda: ThreadPoolExecutor(1)], ids=["inline", "threads"])
async def test_whatever_a_handler_raises_is_a_failed_attempt(
    error: BaseException, words: str, kind: int, threads: Callable[[], Executor]
) -> None:
    """Its class and text are recorded; the worker and its loop go on."""
    pool = threads()
    try:
        async with asyncio.timeout(2):
            ended = await Runner(VirtualClock(NOON), pool).run(job(raising(error)[kind]))
    finally:
        pool.shutdown(wait=False)

    attempt = ended.attempt
    assert attempt.outcome is AttemptOutcome.FAILED
    assert attempt.error is not None
    assert words in attempt.error or isinstance(error, StopIteration | StopAsyncIteration)
    assert "\n" not in attempt.error
    assert attempt.traceback is not None
    (attempt.error + attempt.traceback).encode()
    assert "\0" not in attempt.error + attempt.traceback
    assert isinstance(ended.result, Refused if isinstance(error, GiveUp) else Failed)


@pytest.mark.parametrize("after", [None, timedelta(0), SECOND * 90])
async def test_retry_may_say_when(after: timedelta | None) -> None:
    """Or leave it to the schedule."""
    for handler in raising(Retry("busy", after=after)):
        assert (await run(handler)).result == Failed(after)


def test_a_retry_in_the_past_cannot_be_asked_for() -> None:
    """The mistake is found where it is made."""
    with pytest.raises(ValueError, match="not negative"):
        Retry(after=-SECOND)


async def test_a_handler_that_returns_what_it_was_not_asked_for_has_succeeded() -> None:
    """Also an awaitable that a plain function forgot to await would be a mistake of its own."""
    assert (await run(lambda event: {"status": 500})).result == Succeeded()


async def test_cancelling_the_runner_is_no_result() -> None:
    """The worker is stopping: the attempt is not counted."""
    clock = VirtualClock(NOON)
    task = asyncio.create_task(Runner(clock, Inline()).run(job(lambda event, ctx: None)))
    await task
    ended_up: list[str] = []

    async def handler(event: Any) -> None:
        try:
            await clock.sleep(SECOND * 9)
        finally:
            ended_up.append("cleaned up")

    task = asyncio.create_task(Runner(clock, Inline()).run(job(handler)))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended_up == ["cleaned up"]


# --- time


async def test_an_async_handler_is_cancelled_at_its_timeout() -> None:
    """And has failed, with the reason in words."""
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


async def test_a_timeout_of_the_handlers_own_is_a_failure_like_others() -> None:
    """It is not the worker's."""
    ended = await run(raising(TimeoutError("the database"))[0])

    assert ended.attempt.outcome is AttemptOutcome.FAILED
    assert ended.attempt.error == "TimeoutError: the database"


async def test_what_a_cancelled_handler_raises_while_cleaning_up_is_recorded() -> None:
    """It has failed either way."""
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
    """It runs on and may still succeed; it is reported when its time is up, not when it ends."""
    clock = VirtualClock(NOON)

    def handler(event: Any) -> None:
        clock.advance(SECOND * 61)
        assert [record.getMessage() for record in caplog.records] == ["attempt_overdue"]

    ended = await run(handler, clock)

    assert ended.attempt.error is None
    assert (ended.attempt.outcome, ended.attempt.overdue) == (AttemptOutcome.SUCCEEDED, True)


async def test_a_plain_handler_in_time_is_not_overdue(caplog: pytest.LogCaptureFixture) -> None:
    """And its timer is gone when it has ended."""
    clock = VirtualClock(NOON)
    ended = await run(lambda event: clock.advance(SECOND * 59), clock)
    clock.advance(SECOND * 100)

    assert not ended.attempt.overdue
    assert caplog.records == []


async def test_a_plain_handler_that_waits_for_a_thread_is_not_overdue(caplog: pytest.LogCaptureFixture) -> None:
    """It has not begun: its time starts with it, or a full pool would accuse the innocent."""
    clock = VirtualClock(NOON)
    threads = Busy()
    running = asyncio.create_task(run(lambda event: None, clock, threads=threads))
    await turns()
    clock.advance(SECOND * 61)
    threads.run_all()
    ended = await soon(running)

    assert not ended.attempt.overdue
    assert caplog.records == []


# --- describing


def test_notes_do_not_hide_the_error() -> None:
    """Libraries add notes to exceptions (PEP 678); the class and the text come first."""
    error = ValueError("no such page")
    error.add_note("while handling page 3")

    assert describe(error).startswith("ValueError: no such page")


def test_a_syntax_error_is_described_by_its_text() -> None:
    """Not by the arrow under its line."""
    with pytest.raises(SyntaxError) as caught:
        compile("a b", "x", "exec")

    assert describe(caught.value) == "SyntaxError: invalid syntax"


@given(st.text())
def test_every_description_is_one_short_line(text: str) -> None:
    """That every store takes."""
    described = describe(ValueError(text))

    assert len(described.encode()) < 6_000
    assert len(described.splitlines()) <= 1 or not any(c in described for c in "\r\n")
    assert "\0" not in described


async def test_a_long_traceback_keeps_its_end() -> None:
    """What happened stands there."""

    def deep(event: Any, depth: int = 400) -> None:
        if depth == 0:
            raise ValueError("x" * 100_000 + " the end")
        deep(event, depth - 1)

    ended = await run(lambda event: deep(event))

    assert ended.attempt.error is not None
    assert len(ended.attempt.error) <= 500
    assert ended.attempt.traceback is not None
    assert len(ended.attempt.traceback) <= 8_000
    assert ended.attempt.traceback.rstrip().endswith("the end")
