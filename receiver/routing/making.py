"""Makes handlers from functions and options, and refuses what could not run."""

import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

from receiver.core.types import HandlerName
from receiver.errors import HandlerError
from receiver.events import ScheduledRun
from receiver.routing.calls import Extras, read_extras, require_event
from receiver.routing.handler import Handler
from receiver.routing.options import (
    Options,
    RunOptions,
    read_after_pages,
    read_batch,
    read_concurrency,
    read_errors,
    read_lane,
    read_rate,
    read_runs_in,
    read_schedule,
    read_timeout,
    read_where,
    require_known,
)
from receiver.routing.policies import RunsIn
from receiver.routing.schedules import read_times
from receiver.routing.wanted import EventChoice, require_job_ends, require_wanted

_NAME = re.compile(r"[\w.<>-]{1,200}")


def make_handler(
    function: Callable[..., Any], wanted: tuple[EventChoice, ...], options: Options, *, only_later: bool = False
) -> Handler:
    """Return the handler for some events. Raises HandlerError, or TypeError for an option that does not exist."""
    name = _checked_name(function, options.get("name"))
    require_known(name, options)
    require_wanted(name, wanted, with_runs=only_later)
    if only_later:
        _require_no_order(name, options)
    schedule = read_schedule(name, options)
    batch = read_batch(name, options, schedule)
    after_pages = read_after_pages(name, options)
    if after_pages is not None:
        require_job_ends(name, wanted)
    called = _called(name, function, wanted, options, batched=batch is not None)
    return Handler(
        wanted=wanted,
        where=read_where(name, options),
        schedule=schedule,
        lane=read_lane(name, options),
        after_pages=after_pages,
        batch=batch,
        concurrency=read_concurrency(name, options),
        rate=read_rate(name, options),
        only_later=only_later,
        **called,
    )


def make_scheduled(
    function: Callable[..., Any], interval: object, cron: object, timezone: object, options: Options
) -> Handler:
    """Return the handler that runs by itself, or raise as `make_handler` does."""
    name = _checked_name(function, options.get("name"))
    require_known(name, options, among=RunOptions)
    times = read_times(name, interval, cron, timezone)
    called = _called(name, function, (ScheduledRun,), options, batched=False)
    return Handler(
        wanted=(),
        where=None,
        schedule=read_schedule(name, options, within=times.shortest_gap()),
        times=times,
        **called,
    )


def _called(
    name: HandlerName,
    function: Callable[..., Any],
    wanted: tuple[EventChoice, ...],
    options: Options,
    *,
    batched: bool,
) -> dict[str, Any]:
    """Return the fields that say how the function is called, the same for every handler."""
    extras = read_extras(name, function, batched=batched)
    require_event(name, function, wanted, batched=batched)
    runs_in = read_runs_in(name, options, function)
    if runs_in is RunsIn.PROCESS:
        _require_importable(name, function, extras)
    retry_on, give_up_on = read_errors(name, options)
    return {
        "name": name,
        "function": function,
        "timeout": read_timeout(name, options),
        "runs_in": runs_in,
        "takes_context": extras.takes_context,
        "context_name": extras.context_name,
        "needs": extras.needs,
        "retry_on": retry_on,
        "give_up_on": give_up_on,
    }


def _require_no_order(handler: str, options: Options) -> None:
    for option in ("ordered", "lane", "after_pages"):
        if options.get(option):
            raise HandlerError(f"{handler}: {option}= does not go with later(...), whose work would stop others")


def _checked_name(function: Callable[..., Any], name: str | None) -> HandlerName:
    if not callable(function):
        hint = "; register it below its class, as in router.add(Shop.index, CrawlPage)"
        raise HandlerError(
            f"a handler must be a function, not {function!r}{hint * isinstance(function, classmethod)}"
        )
    if name is None:
        module = getattr(function, "__module__", None)
        qualname = getattr(function, "__qualname__", None)
        if module is None or qualname is None or "<lambda>" in qualname:
            raise HandlerError(f"{function!r} has no name of its own: give it name=...")
        name = f"{module}.{qualname}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise HandlerError(f"{name!r} is not a name for a handler: use letters, digits, dots, dashes, at most 200")
    return HandlerName(name)


def _require_importable(handler: str, function: Callable[..., Any], extras: Extras) -> None:
    """Raise HandlerError for a function that another process cannot import or call."""
    if extras.takes_context or extras.needs:
        raise HandlerError(f'{handler}: with run_in="process" the function takes its event alone')
    if (
        not isinstance(function, FunctionType)
        or "<" in function.__qualname__
        or function.__module__ in ("__main__", "__mp_main__")
    ):
        raise HandlerError(
            f'{handler}: with run_in="process" the function must be found by its name in a module: '
            "no lambda, no method of an object, nothing inside of a function or of __main__"
        )
