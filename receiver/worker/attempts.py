"""An attempt at a work item: what was claimed, how it ended, what the end means, and its line in the log."""

import asyncio
import inspect
import logging
import shlex
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from receiver.core.claims import WorkItem
from receiver.core.clock import Clock, Timer
from receiver.core.rules import Died, Failed, Refused, Result
from receiver.core.text import did_you_mean, storable
from receiver.core.types import AttemptOutcome, HandlerName, WorkState
from receiver.core.units import in_words
from receiver.core.work import Attempt
from receiver.errors import GiveUp, HandlerError, NoApiKey, RateLimited, Retry, StoreError
from receiver.events import Event
from receiver.routing import Handler
from receiver.runtime.log_lines import Seldom, event_log
from receiver.runtime.tracebacks import error_line, frames, traceback_of, user_frames

MAX_TRACEBACK_LENGTH = 8_000


class TimedOut(TimeoutError):
    """A handler was ended at its time-out."""

    def __str__(self) -> str:
        return str(self.args[0])


class ProcessDied(Exception):
    """The process that ran a function ended before the function did."""


class NoProcess(Exception):
    """No process came to the point of running a function."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as texts that every store takes and that can be sent to another process.

    `error` is its class and message in one line. `classes` are the names of its class and of the base classes, the
    nearest first. `frames` are lines that show where the user's code raised it. `after` is the pause that a `Retry`
    or a `RateLimited` asks for.
    """

    error: str
    traceback: str
    classes: tuple[str, ...]
    frames: tuple[str, ...] = ()
    after: timedelta | None = None

    @property
    def deliberate(self) -> bool:
        """Return whether the handler raised `Retry` or `GiveUp` on purpose.

        A NoApiKey is a GiveUp that it did not choose.
        """
        return (_RETRY in self.classes or _GIVE_UP in self.classes) and _NO_API_KEY not in self.classes

    @classmethod
    def of(cls, error: BaseException) -> "Raised":
        """Describe an exception, even one whose `__str__` raises."""
        if isinstance(error, RaisedElsewhere):
            return error.raised
        name = "retry_after" if isinstance(error, RateLimited) else "after"
        after = getattr(error, name, None)  # a subclass may not have set it, or may have set something else
        return cls(
            describe(error),
            storable(traceback_of(error)[-MAX_TRACEBACK_LENGTH:]),  # the end says what happened
            _names(type(error).__mro__),
            # Where our own code raised these does not matter, but where a handler was at its time-out does.
            tuple(user_frames(error) if isinstance(error, TimedOut | ProcessDied | NoProcess) else frames(error)),
            after if isinstance(after, timedelta) else None,
        )


class RaisedElsewhere(Exception):
    """Stands for an exception of another process, or of an event too large to keep: only a description is left."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.error)
        self.raised = raised
        self.add_note(raised.traceback)


def require_done(result: object) -> object:
    """Return what a plain function returned.

    Raises TypeError if that is a coroutine or generator that would never run.
    """
    if result is None:
        return None
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        raise TypeError(
            f"the handler returned a {type(result).__name__} that nobody awaits: "
            "a decorator around an async function has to be async itself"
        )
    return result


def result_of(raised: Raised, handler: Handler) -> Result:
    """Return what an exception means under the handler's policy.

    `Retry` and `GiveUp` come first. Then the policy decides by the nearest class that it names, but not about a
    process that dies or does not start, nor about a store that is unreachable. With `retry_on` it gives up on all
    other classes. After a `RateLimited` the retry waits at least as long as the service asks.
    """
    if _RETRY in raised.classes:
        return Failed(raised.after)
    if _GIVE_UP in raised.classes:
        return Refused()
    if _DIED in raised.classes:
        return Died()
    if _NO_PROCESS in raised.classes or _STORE_ERROR in raised.classes:
        return Failed()
    retried, given_up = _names(handler.retry_on), _names(handler.give_up_on)
    again = Failed(at_least=raised.after if _RATE_LIMITED in raised.classes else None)
    for name in raised.classes:
        if name in retried:
            return again
        if name in given_up:
            return Refused()
    return Refused() if retried else again


def describe(error: BaseException) -> str:
    """Return class and message of an error in one line for any store; of a time-out, the message alone."""
    return storable(str(error) if isinstance(error, TimedOut) else error_line(error))


def _names(classes: tuple[type[BaseException], ...]) -> tuple[str, ...]:
    return tuple([f"{one.__module__}.{one.__qualname__}" for one in classes])


_RETRY, _GIVE_UP, _DIED, _NO_PROCESS, _STORE_ERROR, _RATE_LIMITED, _NO_API_KEY = _names(
    (Retry, GiveUp, ProcessDied, NoProcess, StoreError, RateLimited, NoApiKey)
)


MAX_CALLS = 100
"""For one event, and one more for each further event of a batch. More is an endless loop."""


@dataclass(frozen=True, slots=True)
class LaterCall:
    """A handler to run for the same delivery, `after` the end of the attempt."""

    handler: HandlerName
    after: timedelta


class LaterCalls:
    """What one call of a handler asks for with `ctx.later`, made when its success is recorded.

    Threads may add to it.
    """

    def __init__(self, handlers: Collection[Handler], events: Sequence[Event], work_ids: Sequence[int]) -> None:
        """`events` are what the handler got, and `work_ids` their work items."""
        self._handlers = handlers
        self._events = events
        self._places = {id(event): place for place, event in enumerate(events)}
        self._work_ids = work_ids
        self._calls: dict[int, list[LaterCall]] = {}
        self._left = MAX_CALLS + len(events) - 1
        self._ended = False

    def add(self, wanted: object, event: object, after: timedelta) -> None:
        """Add a call. Raises HandlerError if it cannot be made, and RuntimeError if the attempt has ended."""
        if self._ended:
            raise RuntimeError("ctx.later was called after the attempt had ended, so nothing would come of it")
        place = self._places.get(id(event))
        if place is None:  # the handler may have copied it
            place = next((at for at, one in enumerate(self._events) if one == event), None)
        if place is None:
            raise HandlerError(
                "ctx.later takes the event that the handler got: the later call reads the stored delivery again, "
                f"and {type(event).__name__} was not delivered here"
            )
        if not self._left:
            most = MAX_CALLS + len(self._events) - 1
            raise HandlerError(f"ctx.later was called more than {most:,} times in one attempt")
        handler = self._found(wanted)
        if not handler.is_for(self._events[place]):
            kind = self._events[place].type
            raise HandlerError(f"ctx.later: the handler {handler.name} is not registered for {kind}")
        if handler.lane is not None or handler.after_pages is not None:
            raise HandlerError(
                f"ctx.later: the handler {handler.name} has an order or waits for pages, and work for later would "
                "stop that; register another function with @router.later"
            )
        self._left -= 1
        self._calls.setdefault(self._work_ids[place], []).append(LaterCall(handler.name, after))

    def end(self) -> Mapping[int, Sequence[LaterCall]]:
        """Return the calls by work item, and accept no more."""
        self._ended = True
        return self._calls

    def _found(self, wanted: object) -> Handler:
        """Return the handler with this name or this function."""
        if not isinstance(wanted, str) and not callable(wanted):
            raise HandlerError(f"ctx.later takes a handler's function or its name, not {wanted!r}")
        found = [one for one in self._handlers if _is(one, wanted)]
        if len(found) == 1:
            return found[0]
        shown = wanted if isinstance(wanted, str) else getattr(wanted, "__qualname__", repr(wanted))
        if found:
            names = ", ".join(one.name for one in found)
            raise HandlerError(f"ctx.later: the function {shown} has several handlers; give one by name: {names}")
        close = [repr(str(one.name)) for one in self._handlers if one.name.rpartition(".")[2] in shown.split(".")]
        raise HandlerError(
            f"ctx.later: no handler of the router is {shown!r}{did_you_mean(close[:1])}"
            + ("" if close else "; register it with @router.later(...) or @router.on(...)")
        )


NO_CALLS = LaterCalls((), (), ())
"""For functions without a context."""


def _is(handler: Handler, wanted: str | Callable[..., Any]) -> bool:
    if isinstance(wanted, str):
        return handler.name == wanted
    return handler.function is wanted or inspect.unwrap(handler.function) is inspect.unwrap(wanted)


log = event_log(__name__)

MAX_ITEMS = 1_000
"""Ends of attempts in one transaction, during which no delivery can be stored."""


class Claimed(NamedTuple):
    """A claimed work item and its handler. `event` is None until the body has been read.

    `refusal` says why the handler must not be called. `run` is there if the item has followers or is one.
    """

    item: WorkItem
    handler: Handler
    event: Event | None = None
    refusal: str | None = None
    run: "LaneRun | None" = None


HandlerCall = tuple[Claimed, ...]
"""The work items of one call of a handler: a single one, or a batch."""


class LaneRun:
    """A claimed item and its followers, each of which runs once the one before has succeeded.

    `head` is the item that the store has under a lease. `begun` are the ids of those that are ready, running, or
    waiting for their record, in order; `waiting` are the followers after these. `started` is the last one to get a
    slot.
    """

    __slots__ = ("begun", "head", "started", "waiting")

    def __init__(self, head: int, followers: Iterable[Claimed]) -> None:
        self.head = head
        self.begun = deque([head])
        self.waiting = deque([one._replace(run=self) for one in followers])
        self.started: int | None = None

    def begin_next(self) -> Claimed | None:
        """Take the next follower; return None if there is none."""
        if not self.waiting:
            return None
        following = self.waiting.popleft()
        self.begun.append(following.item.id)
        return following


class Ended(NamedTuple):
    """How an attempt ended: the record for the store, and the result that decides what comes next.

    `value` is what the handler returned, `error` what it raised, and `raised` describes that. In a batch only the
    first item has the frames, which are logged once. `later` is what a successful attempt asked for by `ctx.later`.
    """

    attempt: Attempt
    result: Result
    value: object = None
    error: BaseException | None = None
    raised: Raised | None = None
    later: tuple[LaterCall, ...] = ()


class AttemptRunner(Protocol):
    """Makes attempts."""

    async def run_batch(self, batch: Sequence[Claimed]) -> Sequence[Ended]:
        """Call a handler once with all these work items; return the end of each, in order.

        Those that ended in the same success may have the very same end.
        """


def by_end(call: Sequence[Claimed], ends: Sequence[Ended]) -> Iterable[tuple[Sequence[Claimed], Ended]]:
    """Group the items of a call, at most MAX_ITEMS together, by the very same end."""
    if len(call) == 1:
        return [(call, ends[0])]
    alike: dict[int, tuple[list[Claimed], Ended]] = {}
    for one, end in zip(call, ends, strict=True):
        alike.setdefault(id(end), ([], end))[0].append(one)
    return [
        (items[at : at + MAX_ITEMS], end) for items, end in alike.values() for at in range(0, len(items), MAX_ITEMS)
    ]


def refused(claimed: Claimed, now: datetime) -> Ended:
    """Return the end of an attempt that was refused and not made."""
    item = claimed.item
    return Ended(
        Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, claimed.refusal),
        Refused(),
    )


def broken(claimed: Claimed, error: str, now: datetime) -> Ended:
    """Return the end of an attempt that the worker itself could not finish."""
    item = claimed.item
    return Ended(Attempt(item.attempt, item.trigger, now, now, AttemptOutcome.FAILED, error), Failed())


def log_attempt(
    claimed: Claimed, ended: Ended, state: WorkState, due_at: datetime, *, store: str | None = None
) -> None:
    """Log how an attempt ended and what comes next. Commands in the line name `store`, if it is given."""
    if state is WorkState.DONE and not log.isEnabledFor(logging.INFO):
        return  # a busy worker comes here thousands of times in a second
    fields = {**log_fields((claimed,)), "seconds": ended.attempt.took.total_seconds()}
    if claimed.refusal is not None:
        fields["attempt"] = claimed.item.attempt - 1  # the last one that ran: this one was never made
    match state:
        case WorkState.DONE:
            if ended.later:
                fields["later"] = ", ".join(f"{one.handler} in {in_words(one.after)}" for one in ended.later)
            log.info("attempt_succeeded", extra=fields)
        case WorkState.WAITING:
            log.warning(
                "attempt_failed", extra={**fields, **_failure(claimed, ended, store), "due_at": due_at.isoformat()}
            )
        case _:
            lane = claimed.handler.lane
            if claimed.item.in_lane and lane is not None and lane.holds_when_dead:
                fields["stops_lane"] = True
            log.error("work_dead", extra={**fields, **_failure(claimed, ended, store)})


def _failure(claimed: Claimed, ended: Ended, store: str | None) -> dict[str, object]:
    """Return the fields of a failure: one line if the handler raised it on purpose."""
    raised, work_id = ended.raised, claimed.item.id
    fields: dict[str, object] = {"work_id": work_id, "error": ended.attempt.error, "frames": ()}
    if raised is not None:
        fields["traceback"] = raised.traceback
    if raised is None or not raised.deliberate:
        fields["frames"] = () if raised is None else raised.frames
        flag = "" if store is None else f" --store {shlex.quote(store)}"
        fields["advice"] = f"receiver work-items show {work_id}{flag}"
    return fields


def log_fields(claimed: Sequence[Claimed]) -> dict[str, object]:
    """Return the log fields that name one attempt, or one call with a batch."""
    first = claimed[0].item
    if len(claimed) > 1:
        return {"handler": first.handler, "events": len(claimed)}
    delivery = first.source.delivery
    return {
        "handler": first.handler,
        "id": delivery.key,
        "type": delivery.type,
        "job_id": delivery.job_id,
        "attempt": first.attempt,
    }


_NONE = timedelta(0)


class Deadline:
    """Makes one call when `timeout` has passed since the handler started, or since its last heartbeat.

    `start` and `beat` may be called from any thread, everything else in the event loop. Time counts from the start:
    a function that waits for a thread is not late. The runner notes here whether the function has `waited` for
    anything, `refused` to be cancelled, or `ended_late` with a result.
    """

    __slots__ = (
        "_beat_at",
        "_clock",
        "_passed",
        "_since",
        "_started",
        "_timer",
        "ended_late",
        "late",
        "refused",
        "timeout",
        "waited",
    )

    def __init__(self, clock: Clock, timeout: timedelta) -> None:
        self.timeout = timeout
        self.late = False
        self.waited = self.refused = self.ended_late = False
        self._clock = clock
        self._started = False
        self._beat_at: datetime | None = None
        self._since: datetime | None = None
        self._passed: Callable[[], None] | None = None
        self._timer: Timer | None = None

    def watch(self, passed: Callable[[], None], *, started: bool) -> None:
        """Call `passed` once if time runs out. Time since `start` counts."""
        self._passed = passed
        if self._started:
            self._check()
        else:
            self._started = started
            self._timer = self._clock.call_later(self.timeout, self._check)

    def start(self) -> None:
        """Note that the function is called now. One that never waits needs no `watch`."""
        self._since = self._beat_at = self._clock.steady()
        self._started = True

    def beat(self) -> None:
        """Start the time-out anew."""
        self._since = self._beat_at = self._clock.steady()

    def overrun(self) -> timedelta | None:
        """Return the time since the start or the last heartbeat if it exceeds the time-out, else None."""
        took = _NONE if self._since is None else self._clock.steady() - self._since
        return took if took > self.timeout else None

    def cancel(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        left = self._left()
        if left > _NONE:
            self._timer = self._clock.call_later(left, self._check)
        elif self._passed is not None:
            self.late = True
            self._passed()

    def _left(self) -> timedelta:
        if not self._started:
            return self.timeout
        beat_at, self._beat_at = self._beat_at, None
        if beat_at is None:
            return _NONE
        return beat_at + self.timeout - self._clock.steady()


TOLD_EVERY = timedelta(minutes=10)
"""Time between two log lines about the same handler: a slow one may run thousands of times in an hour."""
MAKE_IT_PLAIN = "make it a plain function (def without async): then it runs in a thread, and nothing waits for it"


class LateHandlers:
    """Logs async handlers that end with a result after their time-out, each once in ten minutes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = Seldom(TOLD_EVERY)

    def check(self, claimed: Sequence[Claimed], deadline: Deadline) -> None:
        """If a call that has just ended was late, note that in its deadline and log it."""
        took = deadline.overrun()
        if took is None and not deadline.refused:
            return
        deadline.ended_late = True
        if not self._told.allows(claimed[0].item.handler, self._clock.steady()):
            return
        reason, advice = _explained(deadline)
        seconds = (took or deadline.timeout).total_seconds()
        fields = {"seconds": seconds, "timeout_s": deadline.timeout.total_seconds(), "reason": reason}
        log.warning("attempt_late", extra={**log_fields(claimed), **fields, "advice": advice})


def _explained(deadline: Deadline) -> tuple[str, str]:
    """Return why the time-out could not end a call, and what to do."""
    if deadline.refused:
        advice = "raise asyncio.CancelledError again where the handler catches it"
        return "it was cancelled at its time-out and went on", advice
    if not deadline.waited:
        return "it blocked the event loop, so that nothing could cancel it", MAKE_IT_PLAIN
    advice = "event_loop_blocked in this log names the handler and the line"
    return "it or another handler blocked the event loop, so that nothing could cancel it", advice


async def within(deadline: Deadline, running: Awaitable[object], ending: str, *, started: bool = True) -> object:
    """Await a call. At its deadline, cancel it and raise TimedOut."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as limit:
            deadline.watch(lambda: limit.reschedule(loop.time()), started=started)
            try:
                value = await running
            finally:
                deadline.cancel()
    except TimeoutError as exc:
        if limit.expired():
            raise TimedOut(f"took longer than {deadline.timeout.total_seconds():g} s {ending}") from exc
        raise
    deadline.refused = limit.expired()
    return value
