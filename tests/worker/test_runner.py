"""One attempt, of one item or of a batch: whatever a handler does ends up in the result."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.claims import WorkItem
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import StoredDelivery
from receiver.core.rules import Failed, Refused, Succeeded
from receiver.core.types import AttemptOutcome, HandlerName, Trigger
from receiver.errors import GiveUp, Retry
from receiver.events import CrawlPage, Event, UnknownEvent
from receiver.routing import Router
from receiver.routing.context import BatchContext, Context
from receiver.worker.attempts import Claimed, Ended, refused
from receiver.worker.runner import Runner
from tests.doubles import LONG, NOON, Busy, Inline, body_of, delivery, pass_time, soon, turns

SECOND = timedelta(seconds=1)


def claim(
    function: Callable[..., Any], *, body: bytes | None = None, event: Event | None = None, **options: Any
) -> Claimed:
    router = Router()
    router.add(function, "*", name="h", **options)
    source = StoredDelivery(7, 2, delivery("k", body=body_of(id="j") if body is None else body))
    item = WorkItem(1, HandlerName("h"), 3, 0, 0, Trigger.RETRY, source)
    return Claimed(item, router[HandlerName("h")], event)


async def run(
    function: Callable[..., Any],
    clock: VirtualClock | None = None,
    *,
    threads: Executor | None = None,
    resources: Mapping[Any, object] | None = None,
    **options: Any,
) -> Ended:
    runner = Runner(clock or VirtualClock(NOON), threads or Inline(), resources=resources or {})
    ended: Ended = await soon(runner.run(claim(function, **options)))
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
    assert (ctx.delivery.id, ctx.delivery.key, ctx.delivery.duplicates) == ("k", "k", 2)
    assert ctx.delivery.received_at == NOON
    assert ctx.delivery.size == len(body_of(id="j"))
    assert ctx.delivery.headers == (("content-type", "application/json"),)


async def test_the_handlers_log_names_handler_and_delivery(caplog: pytest.LogCaptureFixture) -> None:
    """Also with fields of its own."""
    caplog.set_level(logging.INFO)
    await run(lambda event, ctx: ctx.log.info("hello"))

    (record,) = [record for record in caplog.records if record.getMessage() == "hello"]
    fields = vars(record)
    assert (fields["handler"], fields["id"], fields["attempt"]) == ("h", "k", 3)


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
async def test_a_handler_is_given_what_its_annotations_name(shape: Callable[[Seen], Callable[..., Any]]) -> None:
    """Resources and the context, in any order after the event."""
    seen: Seen = []
    pool = Pool()
    ended = await run(shape(seen), resources={Pool: pool, Model: Model()})

    assert ended.attempt.error is None
    assert isinstance(seen[0], Context | Model)
    assert seen[1] is pool


async def test_the_job_is_that_of_the_delivery() -> None:
    """As the store has it."""
    seen: list[Context] = []
    await run(lambda event, ctx: seen.append(ctx))

    assert (seen[0].job_id, seen[0].job) == ("job", "job")


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
async def test_the_handlers_policy_says_what_an_error_means(options: Any, result: object) -> None:
    """In the event loop and in threads."""
    for handler in raising(KeyError("k")):
        assert (await run(handler, **options)).result == result


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


async def test_a_heartbeat_begins_the_timeout_anew() -> None:
    """A plain call in an async handler."""
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
    """The same call."""
    clock = VirtualClock(NOON)

    def handler(event: Any, ctx: Context) -> None:
        for _ in range(5):
            clock.advance(SECOND * 59)
            ctx.heartbeat()

    assert not (await run(handler, clock)).attempt.overdue


async def test_a_timeout_is_a_timeout_error_to_the_policy() -> None:
    """So that it can be given up on."""
    clock = VirtualClock(NOON)

    async def handler(event: Any) -> None:
        await clock.sleep(SECOND * 100)

    running = asyncio.create_task(run(handler, clock, timeout=30, give_up_on=TimeoutError))
    await pass_time(clock, SECOND * 30)

    assert (await soon(running)).result == Refused()


# --- batches


def batch(
    function: Callable[..., Any], count: int = 3, *, bodies: Sequence[bytes] = (), **options: Any
) -> list[Claimed]:
    """Return items of one handler, each of a delivery of its own."""
    router = Router()
    router.add(function, "*", name="h", **{"batch": 10, **options})
    bodies = bodies or [body_of(id=f"j{number}") for number in range(count)]
    return [
        Claimed(
            WorkItem(
                number,
                HandlerName("h"),
                1,
                0,
                0,
                Trigger.DELIVERY,
                StoredDelivery(number, 0, delivery(f"k{number}", body=body)),
            ),
            router[HandlerName("h")],
        )
        for number, body in enumerate(bodies)
    ]


async def run_batch(claimed: Sequence[Claimed], clock: VirtualClock | None = None, **more: Any) -> Sequence[Ended]:
    ended: Sequence[Ended] = await soon(Runner(clock or VirtualClock(NOON), Inline(), **more).run_batch(claimed))
    return ended


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_batch_is_one_call_with_a_list(kind: str) -> None:
    """In the order of its items; each of them has succeeded."""
    seen: list[list[str | None]] = []

    def plain(events: list[Event]) -> None:
        seen.append([event.job_id for event in events])

    async def on_loop(events: list[Event]) -> None:
        plain(events)

    ended = await run_batch(batch(plain if kind == "plain" else on_loop))

    assert seen == [["j0", "j1", "j2"]]
    assert [end.result for end in ended] == [Succeeded()] * 3
    assert {end.attempt.outcome for end in ended} == {AttemptOutcome.SUCCEEDED}


async def test_what_a_batch_raises_fails_each_of_its_items() -> None:
    """With the same error."""

    async def handler(events: list[Event]) -> None:
        raise ValueError("one of them")

    ended = await run_batch(batch(handler))

    assert [end.result for end in ended] == [Failed()] * 3
    assert {end.attempt.error for end in ended} == {"ValueError: one of them"}


@pytest.mark.parametrize(
    ("error", "options"),
    [(GiveUp("a bad one"), {}), (KeyError("k"), {"give_up_on": KeyError}), (KeyError("k"), {"retry_on": OSError})],
    ids=str,
)
async def test_a_batch_never_gives_up_as_a_whole(error: Exception, options: Any) -> None:
    """One bad page must not bury the others: each is tried again by itself, and may be given up then."""

    async def handler(events: list[Event]) -> None:
        raise error

    assert [end.result for end in await run_batch(batch(handler, **options))] == [Failed()] * 3
    assert [end.result for end in await run_batch(batch(handler, count=1, **options))] == [Refused()]


async def test_retry_after_holds_for_every_item() -> None:
    """The handler has said it of all."""

    async def handler(events: list[Event]) -> None:
        raise Retry(after=SECOND * 7)

    assert [end.result for end in await run_batch(batch(handler))] == [Failed(SECOND * 7)] * 3


async def test_an_item_alone_is_a_list_of_one() -> None:
    """The second attempt of what failed in a batch."""
    seen: list[list[Event]] = []

    async def handler(events: list[Event]) -> None:
        seen.append(events)

    (one,) = batch(handler, count=1)
    ended = await soon(Runner(VirtualClock(NOON), Inline()).run(one))

    assert ended.result == Succeeded()
    assert [len(events) for events in seen] == [1]


async def test_items_that_are_not_wanted_any_more_are_left_out_and_done() -> None:
    """And one whose `where` raises fails alone."""
    seen: list[str | None] = []

    async def handler(events: list[Event]) -> None:
        seen.extend(event.job_id for event in events)
        raise ValueError("bad")

    def where(event: Event) -> bool:
        return {"j0": True, "j1": False}[str(event.job_id)]

    ended = await run_batch(batch(handler, where=where))

    assert seen == ["j0"]
    assert [end.result for end in ended] == [Failed(), Succeeded(), Failed()]
    assert [end.attempt.error for end in ended] == [
        "ValueError: bad",
        None,
        "KeyError: 'j2'",
    ]


async def test_nothing_is_called_for_a_batch_that_nobody_wants() -> None:
    """An empty list would be a surprise."""
    called: list[object] = []

    ended = await run_batch(batch(called.append, where=lambda event: False))

    assert [end.result for end in ended] == [Succeeded()] * 3
    assert called == []


async def test_a_batch_context_tells_about_every_delivery() -> None:
    """In the order of the events, those left out excepted."""
    seen: list[BatchContext] = []

    async def handler(events: list[Event], ctx: BatchContext) -> None:
        seen.append(ctx)

    await run_batch(batch(handler, where=lambda event: event.job_id != "j1"))

    (ctx,) = seen
    assert [info.key for info in ctx.deliveries] == ["k0", "k2"]
    assert ctx.triggers == (Trigger.DELIVERY, Trigger.DELIVERY)
    assert (ctx.handler, ctx.attempt, ctx.now) == ("h", 1, NOON)


async def test_a_batch_has_one_timeout() -> None:
    """And every item has timed out then."""
    clock = VirtualClock(NOON)

    async def handler(events: list[Event]) -> None:
        await clock.sleep(SECOND * 100)

    running = asyncio.create_task(run_batch(batch(handler, timeout=30), clock))
    await pass_time(clock, SECOND * 30)

    assert {end.attempt.outcome for end in await soon(running)} == {AttemptOutcome.TIMED_OUT}


async def test_cancelling_a_batch_is_no_result() -> None:
    """The worker is stopping."""
    clock = VirtualClock(NOON)

    async def handler(events: list[Event]) -> None:
        await clock.sleep(SECOND * 9)

    task = asyncio.create_task(run_batch(batch(handler), clock))
    await turns()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


# --- without an attempt


def test_an_item_that_killed_its_workers_is_refused() -> None:
    """Its end is recorded like that of an attempt."""
    ended = refused(claim(print), NOON)

    assert ended.result == Refused()
    assert ended.attempt.outcome is AttemptOutcome.FAILED
    assert "workers died or lost their leases" in str(ended.attempt.error)
