"""The options of a handler, and the policies that are read from them."""

import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import timedelta
from itertools import accumulate, islice
from typing import Any, Generic, Literal, TypedDict, TypeVar

from receiver.core.retries import DEFAULT_SCHEDULE, MAX_PAUSE, RetrySchedule
from receiver.core.text import did_you_mean
from receiver.core.units import in_words
from receiver.errors import HandlerError, as_duration
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
"""Events of an incomplete batch are claimed, so no other worker can handle them."""

MAX_ATTEMPTS = 10_000
"""The schedule of a handler lists each retry delay."""

Duration = float | timedelta
"""Seconds, or a timedelta."""
Errors = type[BaseException] | tuple[type[BaseException], ...]


class RunOptions(TypedDict, total=False):
    """The options of `Router.every`, which every handler has; `help(Router.on)` says more."""

    name: str | None
    """The name in the store; `module.function` by default. It must stay the same when code moves."""
    attempts: int | None
    """How often a work item may run, 1 to 10,000; by default one more than `pauses`, that is 8. If it is more than
    that, the last retry delay repeats; if it is less, the last ones are left out."""
    pauses: Sequence[Duration] | None
    """The retry delays, as seconds or timedeltas; 1 s, 10 s, 1 min, 5 min, 15 min, 1 h, 6 h by default."""
    jitter: float | None
    """The share by which each retry delay is lengthened or shortened at random; 0.2 by default."""
    timeout: Duration
    """The time that an attempt may take; 60 s by default. Each `ctx.heartbeat()` starts the time anew. After it an
    async function is cancelled and a process is killed, and the attempt has failed. A function in a thread runs on
    and is reported."""
    retry_on: Errors
    """Only these exceptions lead to another attempt; any other buries the work item at once. A time-out is a
    TimeoutError. `Retry` and `GiveUp` always do what they say."""
    give_up_on: Errors
    """These exceptions bury the work item at once. If `retry_on` and `give_up_on` both match, the class that is
    nearer to the exception's own class decides."""
    run_in: Literal["process"] | None
    """`process` runs a plain function that computes in a separate process, with its own interpreter lock. The
    function must be importable by its name, and its only parameter is the event or the list."""


class HandlerOptions(RunOptions, Generic[E], total=False):
    """The options of `Router.on` and `Router.add`; `help(Router.on)` lists them with their meaning and default."""

    where: Callable[[E], object] | None
    """A plain function that narrows the events further. It must be quick, since it runs in the worker's event loop.
    If it raises, the attempt fails."""
    ordered: bool
    """Work items of one job run one after the other, in the order of arrival. Other jobs run at the same time."""
    lane: Callable[[E], str | None] | None
    """Like `ordered`, by another key than the job's id. None is for events that need no order. If the function
    raises, the event goes to the lane of its job, and the log says so."""
    on_dead: Literal["release", "hold"]
    """The effect of a dead work item on its lane: `release` lets the next item run, `hold` stops the lane until the
    dead one is retried or buried."""
    after_pages: Duration | None
    """The last event of a job waits until the router's page handlers have handled every stored page of the job, and
    until no page has arrived for `quiet`; but it never waits longer than this."""
    quiet: Duration | None
    """For `after_pages`; 90 s by default, enough for the sender's first retry."""
    batch: int | None
    """The function gets a list of up to this many events. Only first attempts come in batches: if a batch fails,
    each event is tried again alone. Success and failure are recorded for each event."""
    linger: Duration | None
    """For `batch`: how long to wait for more events after the first one; 1 s by default."""
    concurrency: int | None
    """How many attempts of this handler run at one time in all workers together; with `batch`, how many calls in
    each worker."""
    rate: str | None
    """Attempts start evenly spaced, over all workers and restarts, as in `10/s`, `30/min` or `500/h`. In a batch
    each event counts."""


Options = Mapping[str, Any]


def require_known(handler: str, options: Options, *, among: type = HandlerOptions) -> None:
    """Raise TypeError for an option that does not exist: a mistake such as retries= must not be ignored."""
    known = among.__annotations__
    for name in options:
        if name not in known:
            hint = did_you_mean([f"{one}=" for one in difflib.get_close_matches(name, known, n=1)])
            hint = hint or f"; the options are {', '.join(f'{one}=' for one in sorted(known))}"
            raise TypeError(f"{handler}: a handler has no option {name}={hint}")


def read_where(handler: str, options: Options) -> Callable[[Any], object] | None:
    """Return the condition."""
    where = options.get("where")
    if where is not None:
        _require_question(handler, "where", where)
    return where


def read_schedule(handler: str, options: Options, *, within: timedelta | None = None) -> RetrySchedule:
    """Return the schedule of retries, by default one whose attempts are made `within` a time."""
    pauses, jitter, attempts = options.get("pauses"), options.get("jitter"), options.get("attempts")
    if jitter is None:
        jitter = DEFAULT_SCHEDULE.jitter
    elif isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
        raise HandlerError(f"{handler}: jitter= takes a share of the retry delay, from 0 to 1, not {jitter!r}")
    schedule = RetrySchedule(DEFAULT_SCHEDULE.pauses if pauses is None else _pauses(handler, pauses), jitter)
    if attempts is None:
        return schedule if within is None or pauses is not None else _within(schedule, within)
    _require_count(handler, "attempts", attempts, most=MAX_ATTEMPTS)
    return schedule.limited_to(attempts)


def read_timeout(handler: str, options: Options) -> timedelta:
    """Return how long an attempt may take."""
    timeout = _duration(handler, "timeout", options.get("timeout", DEFAULT_TIMEOUT), longest=MAX_PAUSE)
    if not timeout:
        raise HandlerError(f"{handler}: timeout= must be more than 0 seconds")
    return timeout


def read_lane(handler: str, options: Options) -> Lane | None:
    """Return the lanes; None if all events may run at one time."""
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
    """Return how long the last event of a job waits for its pages; None for not at all."""
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
    """Return how events form batches; None if the handler takes single events."""
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
    """Return how many attempts may run at one time; None for no limit of its own."""
    concurrency: int | None = options.get("concurrency")
    if concurrency is not None:
        _require_count(handler, "concurrency", concurrency)
    return concurrency


def read_rate(handler: str, options: Options) -> Rate | None:
    """Return how often an attempt may start; None for no limit."""
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
            f"{handler}: run_in={run_in!r} is not known. Without run_in= an async function runs in the event loop "
            'and a plain one in a thread. run_in="process" is for a plain function that computes'
        )
    if is_async(function):
        raise HandlerError(f'{handler}: run_in="process" is for plain functions, and this one is async')
    return RunsIn.PROCESS


def _within(schedule: RetrySchedule, limit: timedelta) -> RetrySchedule:
    """Return the schedule without the retries that may come after this time."""
    waited = accumulate(schedule.pauses)
    return schedule.limited_to(1 + sum(one * (1 + schedule.jitter) < limit for one in waited))


def _require_question(handler: str, option: str, function: object) -> None:
    """Raise HandlerError unless this is a plain function of one event."""
    if not callable(function):
        raise HandlerError(f"{handler}: {option}= takes a function of the event")
    if is_async(function) or is_async(inspect.unwrap(function)):
        raise HandlerError(f"{handler}: {option}= takes a plain function, not an async one")
    if not takes_one_argument(function):
        raise HandlerError(f"{handler}: {option}= is called with one argument, the event")


def _require_count(handler: str, option: str, value: object, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        limit = "a whole number from 1" if most == math.inf else f"a whole number from 1 to {most:,}"
        raise HandlerError(f"{handler}: {option}= takes {limit}, not {value!r}")


def _duration(handler: str, option: str, value: object, longest: timedelta) -> timedelta:
    try:
        duration = as_duration(value)
    except ValueError as exc:
        raise HandlerError(f"{handler}: {option}= {exc}") from None
    if not timedelta(0) <= duration <= longest:
        raise HandlerError(
            f"{handler}: {option}= takes from 0s to {in_words(longest)}, not {duration.total_seconds():g}s"
        )
    return duration


def _pauses(handler: str, given: object) -> tuple[timedelta, ...]:
    if isinstance(given, str | bytes | Set | Mapping) or not isinstance(given, Iterable):
        raise HandlerError(
            f"{handler}: pauses= takes a list of seconds or timedeltas, as in [5, 60], not {given!r}"
        )
    pauses = tuple(_duration(handler, "pauses", one, MAX_PAUSE) for one in islice(given, MAX_ATTEMPTS))
    if len(pauses) == MAX_ATTEMPTS:
        raise HandlerError(f"{handler}: pauses= takes fewer than {MAX_ATTEMPTS:,} retry delays")
    return pauses


def _classes(handler: str, option: str, options: Options) -> tuple[type[BaseException], ...]:
    given = options.get(option, ())
    classes = given if isinstance(given, tuple) else (given,)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise HandlerError(f"{handler}: {option}= takes exception classes, one or a tuple of them, not {one!r}")
    return classes
