"""Routers: lists of handlers, and of the resources that they share."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, Unpack, overload

from receiver.core.text import table
from receiver.core.types import HandlerName
from receiver.errors import HandlerError
from receiver.events import Event
from receiver.routing.handler import Handler
from receiver.routing.introspection import place_of
from receiver.routing.making import make_handler, make_scheduled
from receiver.routing.options import HandlerOptions, RunOptions
from receiver.routing.policies import RunsIn
from receiver.routing.resources import Resource, in_order, require_given
from receiver.routing.schedules import Pause
from receiver.routing.wanted import EventChoice, page_type, wants_type

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
