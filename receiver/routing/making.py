"""Makes handlers from functions and options, and refuses functions that could not be called."""

import difflib
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import receiver.events as events
from receiver.core.text import did_you_mean
from receiver.core.types import HandlerName
from receiver.errors import HandlerError
from receiver.events import Event, ScheduledRun
from receiver.routing.context import BatchContext, Context
from receiver.routing.handler import Handler
from receiver.routing.introspection import (
    Needs,
    alternatives,
    annotations_of,
    is_vague,
    mentions,
    parameters_of,
    require_resource_type,
    without_notes,
)
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
from receiver.routing.wanted import EventChoice, classes_of, common_class, require_job_ends, require_wanted

_LISTS = (list, Sequence, Collection, Iterable)


@dataclass(frozen=True, slots=True)
class Extras:
    """The parameters of a function besides its event; see `Handler`."""

    takes_context: bool = False
    context_name: str | None = None
    needs: Needs = ()


def read_extras(handler: str, function: Callable[..., Any], *, batched: bool) -> Extras:
    """Return the parameters besides the event or list of events; raises HandlerError for an unclear signature."""
    _require_no_method(handler, function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise HandlerError(f"{handler} is a generator; a handler returns when its work is done")
    parameters = parameters_of(function)
    if parameters is None:
        return Extras()
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise HandlerError(f"{handler}: {_cannot_be_called(function)}")
    hints = annotations_of(function)
    contexts: list[str | None] = []
    needs: list[tuple[str, Any]] = []
    for index, parameter in enumerate(parameters):
        hint = hints.get(parameter.name, parameter.empty)
        if _is_second(index, parameter) and is_vague(hint):
            contexts.append(None)
        elif index == 0 or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        elif _is_context(handler, hint, batched=batched):
            contexts.append(None if _is_second(index, parameter) else _by_name(handler, parameter))
        elif parameter.default is parameter.empty:
            _require_resource(handler, function, parameter, hint)
            needs.append((_by_name(handler, parameter), hint))
    if len(contexts) > 1:
        raise HandlerError(f"{handler} takes the context twice")
    return Extras(bool(contexts), contexts[0] if contexts else None, tuple(needs))


def require_event(
    handler: str, function: Callable[..., Any], wanted: Sequence[EventChoice], *, batched: bool
) -> None:
    """Refuse a function whose first parameter has the annotation of something that it does not get.

    That is another event than it is registered for, or a class that no event, or no list of events, can have.
    """
    parameters = parameters_of(function)
    if not parameters:
        return
    annotated = without_notes(annotations_of(function).get(parameters[0].name))
    if isinstance(annotated, str):
        close = difflib.get_close_matches(annotated, events.__all__, n=1)
        raise HandlerError(
            f"{handler}, parameter {parameters[0].name!r}: {annotated!r} cannot be resolved; "
            f"import it at run time too, not only for the type checker{did_you_mean(close)}"
        )
    accepted = _events_in(annotated)
    if _is_list(annotated):
        accepted = [event for one in typing.get_args(annotated) for event in _events_in(one)]
        if accepted and not batched:
            raise HandlerError(f"{handler} takes {annotated}: add batch=, or take one event")
    elif accepted and batched:
        names = " | ".join(event.__name__ for event in accepted)
        raise HandlerError(f"{handler} has batch= and takes {names}: it gets a list, write list[{names}]")
    if not accepted:
        if not hasattr(function, "__wrapped__"):  # a decorator may give the inner function something else
            _require_room_for(handler, annotated, wanted, batched=batched)
        return
    for one in wanted:
        classes = classes_of(one)
        other = next((event for event in classes if not issubclass(event, tuple(accepted))), None)
        if other is not None:
            shown, advice = _shown(one, other), f"; take {common_class(classes).__name__}" * isinstance(one, str)
            taken = annotated.__name__ if isinstance(annotated, type) else annotated
            raise HandlerError(f"{handler} is registered for {shown} and takes {taken}{advice}")


def _require_room_for(handler: str, annotated: object, wanted: Sequence[EventChoice], *, batched: bool) -> None:
    """Refuse an annotation without an event class, if it does not allow one either."""
    possible = [one for choice in wanted for one in classes_of(choice)]
    given: Sequence[type] = [list] if batched else possible
    elements = typing.get_args(annotated) if batched and _is_list(annotated) else ()
    if all(_excludes(given, one) for one in alternatives(annotated)) or (
        elements and all(_excludes(possible, one) for element in elements for one in alternatives(element))
    ):
        event = common_class(possible).__name__
        gets = f"a list of events: write list[{event}]" if batched else f"an event: write {event}"
        taken = annotated.__name__ if isinstance(annotated, type) else annotated
        raise HandlerError(f"{handler} takes {taken}, and its first parameter gets {gets}")


def _excludes(given: Sequence[type], annotation: object) -> bool:
    """Return whether none of these classes matches this annotation."""
    plain = typing.get_origin(annotation) or annotation
    if is_vague(plain) or not isinstance(plain, type):
        return False
    try:
        return not any(issubclass(one, plain) for one in given)
    except TypeError:  # some protocols cannot be tested
        return False


def _shown(wanted: EventChoice, other: type[Event]) -> str:
    """Return what a handler is registered for; with a glob also one of the events that it includes."""
    if not isinstance(wanted, str):
        return wanted.__name__
    if other is Event:
        return f"{wanted!r}, which includes every event,"
    return f"{wanted!r}, which includes {other.__name__},"


def _require_no_method(handler: str, function: Callable[..., Any]) -> None:
    """Refuse a function of a class: its `self` would get the event."""
    parameters = parameters_of(function) if inspect.isfunction(function) else None
    if parameters and parameters[0].name in ("self", "cls"):
        method = function.__name__
        raise HandlerError(
            f"{handler} is a method, and its {parameters[0].name!r} would get the event. Register it with its "
            f"object, as in router.add(thing.{method}, CrawlPage), or write a function outside of the class"
        )


def _is_second(index: int, parameter: inspect.Parameter) -> bool:
    """Return whether this parameter takes the second argument."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return index <= 1
    return index == 1 and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)


def _is_context(handler: str, hint: object, *, batched: bool) -> bool:
    given, other = (BatchContext, Context) if batched else (Context, BatchContext)
    if mentions(hint, other):
        instead = "with batch= it gets a BatchContext" if batched else "without batch= it gets a Context"
        raise HandlerError(f"{handler} takes a {other.__name__}, and {instead}")
    return mentions(hint, given)


def _require_resource(
    handler: str, function: Callable[..., Any], parameter: inspect.Parameter, hint: object
) -> None:
    if is_vague(hint) or _events_in(hint):
        raise HandlerError(f"{handler}: {_cannot_be_called(function)}")
    require_resource_type(f"{handler}, parameter {parameter.name!r}", hint)


def _by_name(handler: str, parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise HandlerError(f"{handler}: {parameter.name!r} must not be positional-only; it is passed by name")
    return parameter.name


def _cannot_be_called(function: Callable[..., Any]) -> str:
    return (
        f"{inspect.signature(function)} cannot be called as (event) or (event, ctx); "
        "every other parameter needs the type of a resource as its annotation"
    )


def _is_list(annotated: object) -> bool:
    return (typing.get_origin(annotated) or annotated) in _LISTS


def _events_in(annotated: object) -> list[type[Event]]:
    """Return the event classes that an annotation names, alone or in a union."""
    return [part for part in alternatives(annotated) if isinstance(part, type) and issubclass(part, Event)]


_NAME = re.compile(r"[\w.<>-]{1,200}")


def make_handler(
    function: Callable[..., Any], wanted: tuple[EventChoice, ...], options: Options, *, only_later: bool = False
) -> Handler:
    """Return the handler for some events. Raises HandlerError, or TypeError for an option that does not exist."""
    name = _checked_name(function, options.get("name"))
    require_known(name, options)
    require_wanted(name, wanted, with_runs=only_later)
    for option in ("ordered", "lane", "after_pages") if only_later else ():
        if options.get(option):
            raise HandlerError(f"{name}: {option}= does not go with later(...), whose work would stop others")
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
    """Return the fields that say how the function is called, which every handler has."""
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
