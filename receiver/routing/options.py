"""The options of a handler: how they are written, and the policies they become."""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, Literal, TypedDict, TypeVar

from receiver.core.retries import DEFAULT_SCHEDULE, MAX_PAUSE, RetrySchedule
from receiver.core.text import did_you_mean
from receiver.errors import HandlerError
from receiver.events import Event
from receiver.routing.introspection import is_async, takes_one_argument
from receiver.routing.policies import AfterPages, Batch, Lane, Rate, RunsIn, job_of

E = TypeVar("E", bound=Event)

DEFAULT_TIMEOUT = timedelta(seconds=60)
DEFAULT_QUIET = timedelta(seconds=90)
"""The sender's first retry comes 10 s and a minute after the first attempt (interface specification, States)."""
DEFAULT_LINGER = timedelta(seconds=1)
MAX_BATCH_ITEMS = 10_000
LONGEST_LINGER = timedelta(minutes=10)
"""What is gathered is claimed meanwhile, and no other worker can have it."""

Errors = type[BaseException] | tuple[type[BaseException], ...]


class HandlerOptions(TypedDict, Generic[E], total=False):
    """What `Router.on` and `Router.add` take beside the events. What is left out has its default."""

    where: Callable[[E], object] | None
    """Narrows the events further. A plain function, and quick: it runs in the worker's event loop. What it raises
    fails the attempt."""
    name: str | None
    """Name in the store, `module.function` unless given; it must stay the same when code moves."""
    attempts: int | None
    """How often a work item may run: 8."""
    pauses: Sequence[timedelta] | None
    """Between the attempts: 1 s, 10 s, 1 min, 5 min, 15 min, 1 h, 6 h."""
    jitter: float | None
    """The share of each pause by which it is stretched or shrunk at random: 0.2."""
    timeout: float | timedelta
    """Seconds an attempt may take: 60, anew with each `ctx.heartbeat()`. An async function is cancelled then and
    a process killed, and the attempt has failed; a function in a thread runs on and is reported."""
    retry_on: Errors
    """Only these exceptions are worth another attempt; any other buries the work item at once. A time-out is a
    TimeoutError. `Retry` and `GiveUp` always do what they say."""
    give_up_on: Errors
    """These exceptions bury the work item at once. Of `retry_on` and `give_up_on` the class that is nearer to the
    exception's own decides."""
    ordered: bool
    """Work for one job runs one after the other, in the order of arrival; other jobs run beside it."""
    lane: Callable[[E], str | None] | None
    """The same by another key than the job's id; None is for events that need no order. An event for which it
    raises goes to the lane of its job, and the log says so."""
    on_dead: Literal["release", "hold"]
    """What a dead work item does to its lane: `release` lets the next one run, `hold` stops the lane until
    somebody retries or buries the item."""
    after_pages: timedelta | None
    """The last event of a job waits until every stored page of the job has been handled by the router's page
    handlers and none has come for `quiet`, but no longer than this after its own arrival."""
    quiet: timedelta | None
    """For `after_pages`: 90 s, enough for the sender's first retry."""
    batch: int | None
    """The function is given a list of up to so many events. Only first attempts are gathered: what failed in a
    batch is tried again item by item, and success and failure are recorded for each."""
    linger: timedelta | None
    """For `batch`: how long to wait for more after the first event, 1 s."""
    concurrency: int | None
    """How many runs of this handler there are at one time over all workers; with `batch`, how many calls in each
    worker."""
    rate: str | None
    """Attempts begin evenly spaced, over all workers and restarts, as in `10/s`, `30/min` or `500/h`. In a batch
    each event counts."""
    run_in: Literal["process"] | None
    """`process` runs a plain function that computes in a process of its own, beside the interpreter lock. It must
    be found by its name in its module, and takes the event (or list) alone."""


Options = Mapping[str, Any]


def require_known(options: Options) -> None:
    """Raise TypeError for an option that does not exist: a slip such as retries= must not be ignored."""
    known = HandlerOptions.__annotations__
    for name in options:
        if name not in known:
            hint = did_you_mean([f"{one}=" for one in difflib.get_close_matches(name, known, n=1)])
            raise TypeError(f"a handler has no option {name}={hint}")


def read_where(handler: str, options: Options) -> Callable[[Any], object] | None:
    """Return the condition."""
    where = options.get("where")
    if where is not None:
        _require_question(handler, "where", where)
    return where


def read_schedule(handler: str, options: Options) -> RetrySchedule:
    """Return when what failed runs again."""
    pauses, jitter, attempts = options.get("pauses"), options.get("jitter"), options.get("attempts")
    try:
        schedule = RetrySchedule(
            DEFAULT_SCHEDULE.pauses if pauses is None else tuple(pauses),
            DEFAULT_SCHEDULE.jitter if jitter is None else jitter,
        )
        return schedule if attempts is None else schedule.limited_to(attempts)
    except (TypeError, ValueError) as exc:
        raise HandlerError(f"{handler}: {exc}") from None


def read_timeout(handler: str, options: Options) -> timedelta:
    """Return how long an attempt may take."""
    timeout = options.get("timeout", DEFAULT_TIMEOUT)
    try:
        duration = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    except (TypeError, ValueError, OverflowError):
        raise HandlerError(f"{handler}: timeout takes seconds or a timedelta, not {timeout!r}") from None
    if duration <= timedelta(0):
        raise HandlerError(f"{handler}: timeout must be more than 0 seconds")
    return duration


def read_lane(handler: str, options: Options) -> Lane | None:
    """Return the lanes, None when everything may run at one time."""
    ordered, lane, on_dead = options.get("ordered", False), options.get("lane"), options.get("on_dead")
    if not isinstance(ordered, bool):
        raise HandlerError(f"{handler}: ordered= is True or False; lane= takes a function for another key")
    if on_dead not in (None, "release", "hold"):
        raise HandlerError(f'{handler}: on_dead= is "release" or "hold", not {on_dead!r}')
    if lane is not None:
        _require_question(handler, "lane", lane)
        if ordered:
            raise HandlerError(f"{handler}: ordered=True is the lane of the job; leave it out beside lane=")
    elif not ordered:
        if on_dead is not None:
            raise HandlerError(f"{handler}: on_dead= is for lanes; add ordered=True or lane=")
        return None
    return Lane(lane or job_of, holds_when_dead=on_dead == "hold")


def read_after_pages(handler: str, options: Options) -> AfterPages | None:
    """Return how long the last event of a job waits for its pages, None when it does not."""
    at_most, quiet = options.get("after_pages"), options.get("quiet")
    if at_most is None:
        if quiet is not None:
            raise HandlerError(f"{handler}: quiet= is for after_pages=")
        return None
    for other in ("batch", "ordered", "lane"):
        if options.get(other):
            raise HandlerError(f"{handler}: {other}= does not go with after_pages=")
    at_most = _duration(handler, "after_pages", at_most, longest=MAX_PAUSE)
    if at_most == timedelta(0):
        raise HandlerError(f"{handler}: after_pages= must be more than 0 seconds")
    if quiet is None:
        return AfterPages(at_most, min(DEFAULT_QUIET, at_most))
    return AfterPages(at_most, _duration(handler, "quiet", quiet, longest=at_most))


def read_batch(handler: str, options: Options, schedule: RetrySchedule) -> Batch | None:
    """Return how events are gathered, None when each is handed over alone."""
    size, linger = options.get("batch"), options.get("linger")
    if size is None:
        if linger is not None:
            raise HandlerError(f"{handler}: linger= is for batch=")
        return None
    for other in ("ordered", "lane"):
        if options.get(other):
            raise HandlerError(f"{handler}: {other}= does not go with batch=, whose events are handled together")
    if schedule.attempts < 2:
        raise HandlerError(f"{handler}: with batch= attempts= must be 2 or more: the second is made item by item")
    _require_count(handler, "batch", size, most=MAX_BATCH_ITEMS)
    return Batch(size, DEFAULT_LINGER if linger is None else _duration(handler, "linger", linger, LONGEST_LINGER))


def read_concurrency(handler: str, options: Options) -> int | None:
    """Return how many may run at one time, None for no limit of its own."""
    concurrency: int | None = options.get("concurrency")
    if concurrency is not None:
        _require_count(handler, "concurrency", concurrency)
    return concurrency


def read_rate(handler: str, options: Options) -> Rate | None:
    """Return how often an attempt may begin, None for no limit."""
    rate = options.get("rate")
    if rate is None:
        return None
    if not isinstance(rate, str):
        raise HandlerError(f"{handler}: rate= takes a text such as '30/min', not {rate!r}")
    try:
        return Rate.parse(rate)
    except ValueError as exc:
        raise HandlerError(f"{handler}: {exc}") from None


def read_errors(handler: str, options: Options) -> tuple[tuple[type[BaseException], ...], ...]:
    """Return the classes of `retry_on` and of `give_up_on`."""
    retry_on, give_up_on = (_classes(handler, name, options) for name in ("retry_on", "give_up_on"))
    for one in retry_on:
        if one in give_up_on:
            raise HandlerError(f"{handler}: {one.__name__} is in retry_on= and in give_up_on=")
    return retry_on, give_up_on


def read_runs_in(handler: str, options: Options, function: Callable[..., Any]) -> RunsIn:
    """Return where the function runs."""
    run_in = options.get("run_in")
    if run_in is None:
        return RunsIn.LOOP if is_async(function) else RunsIn.THREAD
    if run_in != "process":
        raise HandlerError(
            f"{handler}: run_in={run_in!r} is not known; leave it out, and an async function runs in the event "
            'loop and a plain one in a thread, or say run_in="process" for a plain one that computes'
        )
    if is_async(function):
        raise HandlerError(f'{handler}: run_in="process" is for plain functions, and this one is async')
    return RunsIn.PROCESS


def _require_question(handler: str, option: str, function: object) -> None:
    """Refuse what cannot be asked about an event."""
    if not callable(function):
        raise HandlerError(f"{handler}: {option}= takes a function of the event")
    if is_async(function):
        raise HandlerError(f"{handler}: {option}= takes a plain function, not an async one")
    if not takes_one_argument(function):
        raise HandlerError(f"{handler}: {option}= is called with one argument, the event")


def _require_count(handler: str, option: str, value: object, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        limit = "a whole number from 1" if most == math.inf else f"a whole number from 1 to {most:,}"
        raise HandlerError(f"{handler}: {option}= takes {limit}, not {value!r}")


def _duration(handler: str, option: str, value: object, longest: timedelta) -> timedelta:
    if not isinstance(value, timedelta):
        raise HandlerError(f"{handler}: {option}= takes a timedelta, as in timedelta(minutes=25), not {value!r}")
    if not timedelta(0) <= value <= longest:
        raise HandlerError(f"{handler}: {option}= is from 0 to {longest}, not {value}")
    return value


def _classes(handler: str, option: str, options: Options) -> tuple[type[BaseException], ...]:
    given = options.get(option, ())
    classes = given if isinstance(given, tuple) else (given,)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise HandlerError(f"{handler}: {option}= takes exception classes, one or a tuple of them, not {one!r}")
    return classes
