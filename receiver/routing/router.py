"""Routers: lists of handlers, and of the resources that they share."""

import difflib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar, Unpack, overload

import receiver.events as events
from receiver.core.text import did_you_mean, table
from receiver.core.types import HandlerName
from receiver.errors import HandlerError
from receiver.events import Event, ScheduledRun
from receiver.routing.context import BatchContext, Context
from receiver.routing.handler import (
    EventChoice,
    Handler,
    classes_of,
    common_class,
    page_type,
    require_job_ends,
    require_wanted,
    wants_type,
)
from receiver.routing.introspection import (
    Needs,
    alternatives,
    annotations_of,
    is_vague,
    mentions,
    parameters_of,
    place_of,
    require_resource_type,
    without_notes,
)
from receiver.routing.options import (
    HandlerOptions,
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
from receiver.routing.resources import Resource, in_order, require_given
from receiver.routing.schedules import Pause, read_times

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


F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=Event)


class Router:
    """A list of handlers, and of the resources they share. Merge routers with `Router(one, two)`.

    Raises HandlerError for every mistake: an event that does not exist, a signature that cannot be called, a name
    used twice, options that contradict each other.
    """

    def __init__(self, *others: "Router") -> None:
        self._handlers: dict[HandlerName, Handler] = {}
        self._resources: dict[Any, Resource] = {}
        for other in others:
            self.include(other)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)

    def __getitem__(self, name: HandlerName) -> Handler:
        return self._handlers[name]

    @property
    def resources(self) -> Mapping[Any, Resource]:
        """The resources by the type that each of them gives."""
        return MappingProxyType(self._resources)

    def include(self, other: "Router") -> None:
        """Add all handlers and resources of another router. Those that this one has already are not added twice."""
        if not isinstance(other, Router):
            raise HandlerError(f"a router can include routers only, not {other!r}")
        for handler in other:
            if self._handlers.get(handler.name) is not handler:
                self._require_new_name(handler.name, handler.function)
        for gives, resource in other.resources.items():
            if self._resources.get(gives) is not resource:
                self._require_new_type(resource)
        self._handlers |= other._handlers
        self._resources |= other._resources

    @overload
    def on(self, *wanted: type[E], **options: Unpack[HandlerOptions[E]]) -> Callable[[F], F]: ...

    @overload
    def on(self, *wanted: EventChoice, **options: Unpack[HandlerOptions[Any]]) -> Callable[[F], F]: ...

    def on(self, *wanted: EventChoice, **options: Any) -> Callable[[F], F]:
        """Register the decorated function for some events; it is returned unchanged.

        `wanted` are event classes (their subclasses included), type names, or globs of type names. The function
        gets the event, and a `Context` if it has a second parameter; `add` says more about parameters. The options:

        name          the name in the store; by default `module.function`
        attempts      how often a work item may run; by default one more than `pauses`, that is 8
        pauses        the retry delays in seconds; by default 1 s, 10 s, 1 min, 5 min, 15 min, 1 h, 6 h. With
                      `attempts`, the last one repeats or the last ones are left out: attempts=10, pauses=[1] makes
                      nine retries, a second apart
        jitter        the share by which each retry delay varies at random; 0.2
        timeout       seconds or a timedelta for an attempt; 60. It cancels an async function and kills a process;
                      a function in a thread runs on and is reported
        retry_on      the only exceptions that are retried; by default all
        give_up_on    exceptions after which the work item is dead at once; by default none
        run_in        "process" runs a plain function in a process of its own; by default it runs in a thread
        where         a quick plain function that narrows the events further
        ordered       True: one work item of a job after the other; False
        lane          a function that returns another key than the job for such an order; None is for no order
        on_dead       in a lane, "release" lets the next item run after a dead one, "hold" does not; "release"
        after_pages   the longest time that the last event of a job waits until the pages of the job are handled; by
                      default it does not wait
        quiet         with `after_pages`: the time without a page that ends the wait; 90 s
        batch         the function gets a list of at most this many events; by default one event
        linger        with `batch`: the time to wait for more events; 1 s
        concurrency   how many attempts run at one time in all workers; by default as many as there are slots
        rate          how often attempts start, as in "10/s", "30/min" or "500/h"; by default no limit
        """
        _require_no_function(wanted, "is registered for no event", "the events", "on(CrawlPage)")
        return self._registers(lambda function: make_handler(function, wanted, options))

    def later(self, *wanted: EventChoice, **options: Unpack[HandlerOptions[Any]]) -> Callable[[F], F]:
        """Register the decorated function for calls by `ctx.later` only; it is returned unchanged.

        No delivery and no replay runs it by itself. `wanted` and the options are those of `on`; `wanted` may
        include ScheduledRun. `ordered`, `lane` and `after_pages` are refused, since they have no effect on such
        work.
        """
        _require_no_function(wanted, "is registered for no event", "the events", "later(CrawlStarted)")
        return self._registers(lambda function: make_handler(function, wanted, options, only_later=True))

    def every(
        self,
        interval: Pause | None = None,
        /,
        *,
        cron: str | None = None,
        timezone: str | None = None,
        **options: Unpack[RunOptions],
    ) -> Callable[[F], F]:
        """Register the decorated function to run by itself; it is returned unchanged.

        `every("5 minutes")` counts from the beginning of 1970 in UTC: "1 hour" is on the hour. With
        `cron="0 9 * * 1"` the function runs at nine on Mondays, in UTC or in `timezone`. The function gets a
        `ScheduledRun`, and a `Context` if it has a second parameter. Only one of all workers on all machines makes
        each run. While a run has not ended, or waits for its next attempt, the next runs are left out. If runs were
        missed because no worker ran, only the last one is made up for. A schedule that is new or has changed begins
        with its next run.

        The options are those of `on` without the ones about events and limits: name, attempts, pauses, jitter,
        timeout, retry_on, give_up_on, run_in. By default a run is retried only while the next one is not due.
        """
        _require_no_function((interval,), "has no schedule", "it", 'every("5 minutes")')
        return self._registers(lambda function: make_scheduled(function, interval, cron, timezone, options))

    def add(
        self, function: Callable[..., Any], *wanted: EventChoice, **options: Unpack[HandlerOptions[Any]]
    ) -> None:
        """Register a function, async or plain, for some events.

        `wanted` are event classes (their subclasses included), type names, or globs of type names. The first
        parameter of the function gets the event, or with `batch=` a list of events. The context goes to a parameter
        annotated with `Context` or `BatchContext`, or to a second parameter without an annotation. Other parameters
        get resources, by their annotations. `on` lists the options.
        """
        self._registers(lambda given: make_handler(given, wanted, options))(function)

    @overload
    def resource(self, function: F) -> F: ...

    @overload
    def resource(self) -> Callable[[F], F]: ...

    def resource(self, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Register the decorated function, which yields a resource; it is returned unchanged.

        The function is a generator, async or plain, or returns a context manager. Its return annotation names the
        type: `AsyncIterator[Pool]`, `Iterator[Model]`. A worker opens the resource once, before its first handler
        runs, and closes it after the last one; a plain function runs in a thread. Every handler and resource with a
        parameter of that type gets it. If the function raises, the worker does not start. The decorator also works
        with empty parentheses.
        """
        if function is None:
            return self.resource
        try:
            resource = Resource.of(function)
            self._require_new_type(resource)
        except HandlerError as exc:
            raise HandlerError(f"{place_of(function)}{exc}") from None
        self._resources[resource.gives] = resource
        return function

    def changed(self, change: Callable[[Handler], Handler]) -> "Router":
        """Return a router with the same resources, and with the handlers that `change` returns for these.

        It is for tests that wrap functions. `change` must keep the name of a handler.
        """
        router = Router(self)
        router._handlers = {handler.name: change(handler) for handler in self}
        return router

    def check(self) -> None:
        """Raise HandlerError for mistakes that can be found only when everything is registered and merged.

        These are a parameter whose type no resource gives, resources that need each other, and a function for
        processes that cannot be imported by its name.
        """
        in_order(self._resources)
        for handler in self:
            require_given(handler.name, handler.function, handler.needs, self._resources)
            if handler.runs_in is RunsIn.PROCESS:
                _require_findable(handler)

    @staticmethod
    def page_type(event_type: str) -> str | None:
        """Return the type of a job's page events, given that of its last event: `crawl.page` for `crawl.completed`.

        Return None for events that do not end a job, and for jobs without pages.
        """
        return page_type(event_type)

    def page_handlers(self, event_type: str) -> tuple[HandlerName, ...]:
        """Return the handlers that want page events of the job whose last event is of this type.

        Handlers of `later` are left out: the end of a job must not wait for work that is done hours after it.
        """
        pages = page_type(event_type)
        if pages is None:
            return ()
        return tuple(
            handler.name for handler in self if wants_type(handler.wanted, pages) and not handler.only_later
        )

    def _registers(self, make: Callable[[Callable[..., Any]], Handler]) -> Callable[[F], F]:
        """Return a decorator that adds the handler of a function. Its errors name the place of the function."""

        def register(function: F) -> F:
            try:
                handler = make(function)
            except (HandlerError, TypeError) as exc:
                raise type(exc)(f"{place_of(function)}{exc}") from None
            self._require_new_name(handler.name, function)
            self._handlers[handler.name] = handler
            return function

        return register

    def _require_new_name(self, name: HandlerName, function: Callable[..., Any]) -> None:
        if (other := self._handlers.get(name)) is not None:
            place = place_of(other.function).removesuffix(": ")
            raise HandlerError(
                f"{place_of(function)}two handlers are named {name!r}{place and f', the other at {place}'}: "
                "give one of them name=..., or list several events in one on(...)"
            )

    def _require_new_type(self, resource: Resource) -> None:
        if (other := self._resources.get(resource.gives)) is not None:
            raise HandlerError(
                f"{resource.name} and {other.name} give the same type; make one of them a typing.NewType"
            )


def _require_no_function(given: Iterable[object], problem: str, what: str, example: str) -> None:
    """Raise HandlerError for a decorator without parentheses, which gets the function itself."""
    for one in given:
        if inspect.isroutine(one):
            raise HandlerError(
                f"{place_of(one)}{one.__qualname__} {problem}: write {what} in parentheses, as in @router.{example}"
            )


def _require_findable(handler: Handler) -> None:
    function = handler.function
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not function:
        raise HandlerError(
            f"{place_of(function)}{handler.name}: in another process {function.__module__}.{function.__qualname__} "
            'is not this function; with run_in="process" on(...) must be its outermost decorator'
        )


def options_table() -> str:
    """Return a Markdown table of the options of a handler, with their meaning and default, for the guide."""
    from receiver.core.guide import field_texts  # workers do not need it

    rows = [(f"`{name}=`", text) for name, text in field_texts(HandlerOptions).items()]
    return table(("option", "meaning and default"), rows)
