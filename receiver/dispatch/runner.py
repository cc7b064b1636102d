"""One attempt of one work item: call the handler, watch its time, and say how it ended."""

import asyncio
import contextvars
import functools
import logging
import traceback
from collections.abc import Awaitable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.clock import Clock, time_limit
from receiver.context import Context, DeliveryInfo, HandlerLog
from receiver.decisions import Failed, Refused, Result, Succeeded
from receiver.dispatch.fanout import read_event
from receiver.errors import GiveUp, Retry
from receiver.events import Event
from receiver.records import Attempt, StoredDelivery, WorkItem
from receiver.routing import Handler
from receiver.types import AttemptOutcome, WorkState

log = logging.getLogger(__name__)

_LONGEST_ERROR = 500
_LONGEST_TRACEBACK = 8_000


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed work item with what is needed to run it. `event` is None until the body has been read."""

    item: WorkItem
    handler: Handler
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, for the store and for the decision."""

    attempt: Attempt
    result: Result


class Runner:
    """Runs attempts: async handlers in the event loop, plain ones in threads."""

    def __init__(self, clock: Clock, threads: Executor) -> None:
        self._clock = clock
        self._threads = threads

    async def run(self, claimed: Claimed) -> Ended:
        """Run one attempt. Whatever the handler does ends up in the result.

        Raises CancelledError when the worker cancels it, and only then.
        """
        started_at = self._clock.now()
        overdue = asyncio.Event()
        outcome, result, error = await self._outcome(claimed, overdue)
        attempt = Attempt(
            number=claimed.item.attempt,
            trigger=claimed.item.trigger,
            started_at=started_at,
            ended_at=self._clock.now(),
            outcome=outcome,
            error=None if error is None else describe(error),
            traceback=None if error is None else _cut_traceback(error),
            overdue=overdue.is_set(),
        )
        return Ended(attempt, result)

    def refuse(self, claimed: Claimed) -> Ended:
        """Return the end of an attempt that is not made, because too many workers died in the ones before."""
        now = self._clock.now()
        item = claimed.item
        error = f"not run again: {item.deaths} workers died while it ran"
        attempt = Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, error)
        return Ended(attempt, Refused())

    def failed(self, claimed: Claimed, error: str) -> Ended:
        """Return the end of an attempt that ended in a way nobody foresaw."""
        now = self._clock.now()
        attempt = Attempt(claimed.item.attempt, claimed.item.trigger, now, now, AttemptOutcome.FAILED, error)
        return Ended(attempt, Failed())

    async def _outcome(
        self, claimed: Claimed, overdue: asyncio.Event
    ) -> tuple[AttemptOutcome, Result, BaseException | None]:
        try:
            await self._call(claimed, overdue)
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return AttemptOutcome.FAILED, Failed(), exc
        except _TimedOut as exc:
            return AttemptOutcome.TIMED_OUT, Failed(), exc
        except Retry as exc:
            after = getattr(exc, "after", None)  # a subclass may not have set it, or to something else
            return AttemptOutcome.FAILED, Failed(after if isinstance(after, timedelta) else None), exc
        except GiveUp as exc:
            return AttemptOutcome.FAILED, Refused(), exc
        except BaseException as exc:
            # SystemExit too: one handler's sys.exit() must not end the worker and all the others.
            return AttemptOutcome.FAILED, Failed(), exc
        return AttemptOutcome.SUCCEEDED, Succeeded(), None

    async def _call(self, claimed: Claimed, overdue: asyncio.Event) -> None:
        handler = claimed.handler
        event = claimed.event or read_event(claimed.item.source)
        if not handler.wants(event):
            return  # `where` raised when the delivery was routed, and now says no
        arguments = (event, self._context(claimed)) if handler.takes_context else (event,)
        if handler.is_async:
            await self._within_time(handler, handler.function(*arguments))
        else:
            await self._in_thread(claimed, functools.partial(handler.function, *arguments), overdue)

    async def _within_time(self, handler: Handler, running: Awaitable[object]) -> None:
        try:
            async with time_limit(self._clock, handler.timeout) as limit:
                await running
        except TimeoutError as exc:
            if limit.expired():
                raise _TimedOut(f"took longer than {handler.timeout.total_seconds():g} s") from exc
            raise

    async def _in_thread(
        self, claimed: Claimed, function: "functools.partial[object]", overdue: asyncio.Event
    ) -> None:
        timeout = claimed.handler.timeout
        began: list[datetime] = []

        def call() -> BaseException | None:
            # Returned and not raised: a future takes neither StopIteration nor GeneratorExit.
            began.append(self._clock.now())
            try:
                function()
            except BaseException as exc:
                return exc
            return None

        def tell() -> None:
            left = began[0] + timeout - self._clock.now() if began else timeout
            if left > timedelta(0):  # it waited for a thread; its time starts with it
                timers.append(self._clock.call_later(left, tell))
                return
            overdue.set()
            log.warning("attempt_overdue", extra={**_fields(claimed), "timeout_s": timeout.total_seconds()})

        timers = [self._clock.call_later(timeout, tell)]
        try:
            context = contextvars.copy_context()
            error = await asyncio.get_running_loop().run_in_executor(self._threads, context.run, call)
        finally:
            timers[-1].cancel()
        if error is not None:
            raise error

    def _context(self, claimed: Claimed) -> Context:
        item = claimed.item
        return Context(
            handler=item.handler,
            attempt=item.attempt,
            trigger=item.trigger,
            delivery=_info(item.source),
            now=self._clock.now(),
            log=HandlerLog(logging.getLogger(item.handler), _fields(claimed)),
        )


class _TimedOut(Exception):
    """An async handler was cancelled at its time-out."""

    def __str__(self) -> str:
        return f"{self.args[0]} and was cancelled"


def describe(error: BaseException) -> str:
    """Return class and message of an error in one line that every store takes."""
    shown = traceback.TracebackException.from_exception(error)
    shown.__notes__ = None  # they come behind the text, and belong to the traceback
    text = list(shown.format_exception_only())[-1].strip()
    module = type(error).__module__
    text = text.removeprefix(f"{module}.").removeprefix("_TimedOut: ")
    return _storable(" ".join(text.split()), _LONGEST_ERROR)


def _cut_traceback(error: BaseException) -> str:
    text = "".join(traceback.format_exception(error))
    # The end tells what happened; the beginning is ours.
    return _storable(text[-_LONGEST_TRACEBACK:], _LONGEST_TRACEBACK)


def _storable(text: str, longest: int) -> str:
    return text[:longest].encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def tell_attempt(claimed: Claimed, ended: Ended, state: WorkState, due_at: datetime) -> None:
    """Log how an attempt ended and what comes next."""
    attempt = ended.attempt
    fields = {**_fields(claimed), "seconds": _seconds(attempt)}
    match state:
        case WorkState.DONE:
            log.info("attempt_succeeded", extra=fields)
        case WorkState.WAITING:
            log.warning("attempt_failed", extra={**fields, "error": attempt.error, "due_at": due_at.isoformat()})
        case _:
            log.error("work_dead", extra={**fields, "error": attempt.error, "traceback": attempt.traceback})


def _info(stored: StoredDelivery) -> DeliveryInfo:
    delivery = stored.delivery
    return DeliveryInfo(
        key=delivery.key,
        received_at=delivery.received_at,
        headers=delivery.headers,
        duplicates=stored.duplicates,
        size=len(delivery.body),
    )


def _fields(claimed: Claimed) -> dict[str, object]:
    delivery = claimed.item.source.delivery
    return {
        "handler": claimed.item.handler,
        "key": delivery.key,
        "type": delivery.type,
        "job_id": delivery.job_id,
        "attempt": claimed.item.attempt,
    }


def _seconds(attempt: Attempt) -> float:
    return (attempt.ended_at - (attempt.started_at or attempt.ended_at)).total_seconds()
