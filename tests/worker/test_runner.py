"""One attempt: how the handler is called, and how a failure is recorded."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.rules import Failed, Refused, Succeeded
from receiver.core.types import AttemptOutcome, Trigger
from receiver.errors import GiveUp, Retry
from receiver.events import CrawlPage, Event, UnknownEvent
from receiver.routing.context import Context
from receiver.runtime.log_lines import add_attempt
from receiver.worker.attempts import refused
from receiver.worker.calls.runner import Runner
from tests.doubles import LONG, NOON, Inline, body_of, turns
from tests.worker.running import SECOND, claim, raising, run


async def test_an_async_handler_is_awaited() -> None:
    """It gets the event of its class."""
    seen: list[Event] = []

    async def handler(event: Event) -> None:
        await asyncio.sleep(0)
        seen.append(event)

    ended = await run(handler)

    assert (ended.attempt.outcome, ended.result) == (AttemptOutcome.SUCCEEDED, Succeeded())
    assert (ended.attempt.error, ended.attempt.traceback, ended.attempt.overdue) == (None, None, False)
    assert isinstance(seen[0], CrawlPage)


async def test_a_plain_handler_runs_in_a_thread() -> None:
    """It has the context variables of its task."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("seen")
    seen: list[object] = []
    with ThreadPoolExecutor(1) as threads:
        ended = await run(lambda event: seen.extend([threading.get_ident(), variable.get()]), threads=threads)

    assert ended.result == Succeeded()
    assert seen[1] == "seen"
    assert seen[0] != threading.get_ident()


async def test_the_context_describes_attempt_and_delivery() -> None:
    """All its documented attributes."""
    seen: list[Context] = []
    await run(lambda event, ctx: seen.append(ctx))

    (ctx,) = seen
    assert (ctx.handler, ctx.attempt, ctx.trigger, ctx.now) == ("h", 3, Trigger.RETRY, NOON)
    assert (ctx.delivery.id, ctx.delivery.duplicates) == ("k", 2)
    assert ctx.delivery.received_at == NOON
    assert ctx.delivery.size == len(body_of(id="j"))
    assert ctx.delivery.headers == (("content-type", "application/json"),)


@pytest.fixture
def own_lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The lines of this process, with the filter that `configure_logs` installs."""
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(add_attempt)
    return caplog


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_lines_of_a_handlers_own_loggers_name_handler_and_delivery(
    own_lines: pytest.LogCaptureFixture, plain: bool
) -> None:
    """Also in tasks that it starts, and in the thread of a plain handler; not after its end."""
    own = logging.getLogger("own")

    async def task() -> None:
        own.info("in a task")

    async def handle(event: Event) -> None:
        own.info("in the handler")
        await asyncio.create_task(task())

    def handle_plainly(event: Event) -> None:
        own.info("in a thread")

    with ThreadPoolExecutor(1) as threads:
        await run(handle_plainly if plain else handle, threads=threads)
    own.info("outside")
    *inside, outside = [vars(record) for record in own_lines.records if record.name == "own"]

    assert len(inside) == (1 if plain else 2)
    assert {(one["handler"], one["id"], one["attempt"]) for one in inside} == {("h", "k", 3)}
    assert "handler" not in outside


async def test_the_handlers_log_names_handler_and_delivery(caplog: pytest.LogCaptureFixture) -> None:
    """A line can have more fields."""
    caplog.set_level(logging.INFO)
    await run(lambda event, ctx: ctx.log.info("hello"))

    (record,) = [record for record in caplog.records if record.getMessage() == "hello"]
    fields = vars(record)
    assert (fields["handler"], fields["id"], fields["attempt"]) == ("h", "k", 3)


async def test_an_event_that_was_read_already_is_not_read_again() -> None:
    """The worker that routed it still has it."""
    event = CrawlPage(job_id="mine")
    seen: list[Event] = []
    await run(seen.append, event=event)

    assert seen == [event]


async def test_a_handler_gets_an_unreadable_body_as_an_unknown_event() -> None:
    """If it wants all events."""
    seen: list[Event] = []
    await run(seen.append, body=b"not json")

    assert isinstance(seen[0], UnknownEvent)


async def test_where_is_asked_again() -> None:
    """If it raises, the attempt fails. If it refuses the event, the attempt succeeds without a call."""
    called: list[Event] = []

    ended = await run(called.append, where=lambda event: event.nothing)
    assert (ended.attempt.outcome, ended.result) == (AttemptOutcome.FAILED, Failed())
    assert "AttributeError" in str(ended.attempt.error)

    assert (await run(called.append, where=lambda event: False)).result == Succeeded()
    assert called == []


class Pool:
    """A resource."""


class Model:
    """Another one."""


Seen = list[object]


def pool_first(seen: Seen) -> Callable[..., Any]:
    async def handler(event: Any, pool: Pool, ctx: Context) -> None:
        seen.extend([ctx, pool])

    return handler


def context_first(seen: Seen) -> Callable[..., Any]:
    async def handler(event: Any, ctx: Context, pool: Pool) -> None:
        seen.extend([ctx, pool])

    return handler


def context_by_place(seen: Seen) -> Callable[..., Any]:
    async def handler(event: Any, told: Any, *, pool: Pool) -> None:
        seen.extend([told, pool])

    return handler


def in_a_thread(seen: Seen) -> Callable[..., Any]:
    def handler(event: Any, *, pool: Pool, ctx: Context) -> None:
        seen.extend([ctx, pool])

    return handler


def without_context(seen: Seen) -> Callable[..., Any]:
    async def handler(event: Any, pool: Pool, model: Model) -> None:
        seen.extend([model, pool])

    return handler


@pytest.mark.parametrize(
    "shape",
    [pool_first, context_first, context_by_place, in_a_thread, without_context],
    ids=lambda one: one.__name__,
)
async def test_a_handler_gets_arguments_by_its_annotations(shape: Callable[[Seen], Callable[..., Any]]) -> None:
    """Resources and the context, in any order after the event."""
    seen: Seen = []
    pool = Pool()
    ended = await run(shape(seen), resources={Pool: pool, Model: Model()})

    assert ended.attempt.error is None
    assert isinstance(seen[0], Context | Model)
    assert seen[1] is pool


async def test_the_job_id_is_that_of_the_delivery() -> None:
    seen: list[Context] = []
    await run(lambda event, ctx: seen.append(ctx))

    assert seen[0].job_id == "job"


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
async def test_every_exception_of_a_handler_is_a_failed_attempt(
    error: BaseException, words: str, kind: int, threads: Callable[[], Executor]
) -> None:
    """Its class and text are recorded, and the worker goes on."""
    pool = threads()
    try:
        async with asyncio.timeout(LONG):
            ended = await Runner(VirtualClock(NOON), pool).run(claim(raising(error)[kind]))
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


@pytest.mark.parametrize(
    ("after", "pause"), [(None, None), (timedelta(0), timedelta(0)), (SECOND * 90, SECOND * 90), (0.5, SECOND / 2)]
)
async def test_a_retry_may_set_its_pause(after: float | timedelta | None, pause: timedelta | None) -> None:
    """In seconds or as a timedelta. Otherwise the schedule does."""
    for handler in raising(Retry("busy", after=after)):
        assert (await run(handler)).result == Failed(pause)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (-SECOND, "not negative"),
        (-0.1, "not negative"),
        *[(other, "takes seconds or a timedelta") for other in ("60", True, float("nan"), float("inf"), [60])],
    ],
)
def test_a_retry_at_no_time_is_an_error(after: Any, words: str) -> None:
    """It is raised where the mistake is."""
    with pytest.raises(ValueError, match=words):
        Retry(after=after)


def test_a_retry_takes_its_time_by_name() -> None:
    """Its first argument is the reason."""
    wrong: Any = 60
    with pytest.raises(TypeError, match=r"Retry\(after=60\)"):
        Retry(wrong)


async def test_a_handler_with_a_return_value_has_succeeded() -> None:
    """Only an awaitable that nobody awaits is a mistake."""
    assert (await run(lambda event: {"status": 500})).result == Succeeded()


async def test_cancelling_the_runner_gives_no_result() -> None:
    """The worker stops, and the attempt is not counted."""
    clock = VirtualClock(NOON)
    task = asyncio.create_task(Runner(clock, Inline()).run(claim(lambda event, ctx: None)))
    await task
    ended_up: list[str] = []

    async def handler(event: Any) -> None:
        try:
            await clock.sleep(SECOND * 9)
        finally:
            ended_up.append("cleaned up")

    task = asyncio.create_task(Runner(clock, Inline()).run(claim(handler)))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ended_up == ["cleaned up"]


@pytest.mark.parametrize(
    ("options", "result"),
    [({}, Failed()), ({"give_up_on": LookupError}, Refused()), ({"retry_on": OSError}, Refused())],
    ids=str,
)
async def test_the_policy_of_the_handler_applies(options: Any, result: object) -> None:
    """In the event loop and in threads."""
    for handler in raising(KeyError("k")):
        assert (await run(handler, **options)).result == result


def test_a_refused_item_has_an_end() -> None:
    """It is recorded like that of an attempt."""
    ended = refused(claim(print)._replace(refusal="not run again"), NOON)

    assert ended.result == Refused()
    assert ended.attempt.outcome is AttemptOutcome.FAILED
    assert ended.attempt.error == "not run again"
