"""Which handler wants which event. Every mistake that can be seen at registration is an error there."""

import difflib
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, TypeVar, overload

from receiver.errors import HandlerError
from receiver.events import EVENT_CLASSES, Event
from receiver.policies import AfterPages, Batch, Lane, Rate, RunsIn
from receiver.retries import DEFAULT_SCHEDULE, RetrySchedule
from receiver.types import HandlerName

F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=Event)

DEFAULT_TIMEOUT = timedelta(seconds=60)
_NAME = re.compile(r"[\w.<>-]{1,200}")
_FAMILIES = sorted({name.partition(".")[0] for name in EVENT_CLASSES})


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function with its conditions and its policy."""

    name: HandlerName
    function: Callable[..., Any]
    is_async: bool
    takes_context: bool
    wanted: tuple[type[Event] | str, ...]
    where: Callable[[Any], object] | None
    schedule: RetrySchedule
    timeout: timedelta
    lane: Lane | None = None
    after_pages: AfterPages | None = None
    batch: Batch | None = None
    concurrency: int | None = None
    rate: Rate | None = None
    runs_in: RunsIn = RunsIn.LOOP
    retry_on: tuple[type[BaseException], ...] = ()
    give_up_on: tuple[type[BaseException], ...] = ()

    def wants(self, event: Event) -> bool:
        """Tell whether class, name or glob fit, and `where` agrees. What `where` raises comes through."""
        if not any(_fits(event, wanted) for wanted in self.wanted):
            return False
        return self.where is None or bool(self.where(event))


class Router:
    """A list of handlers. Routers are values: merge them with `Router(one, two)` or `include`.

    Raises HandlerError on anything wrong: an event that does not exist, a signature that cannot be called, a
    name used twice, a policy that makes no sense.
    """

    def __init__(self, *others: "Router") -> None:
        self._handlers: dict[HandlerName, Handler] = {}
        for other in others:
            self.include(other)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)

    def include(self, other: "Router") -> None:
        """Take over all handlers of another router."""
        if not isinstance(other, Router):
            raise HandlerError(f"a router can include routers only, not {other!r}")
        for handler in other:
            self._check_new(handler.name)
        self._handlers |= other._handlers

    def __getitem__(self, name: HandlerName) -> Handler:
        return self._handlers[name]

    @overload
    def on(
        self,
        *wanted: type[E],
        where: Callable[[E], object] | None = None,
        name: str | None = None,
        attempts: int | None = None,
        pauses: Sequence[timedelta] | None = None,
        jitter: float | None = None,
        timeout: float | timedelta = DEFAULT_TIMEOUT,
    ) -> Callable[[F], F]: ...

    @overload
    def on(
        self,
        *wanted: type[Event] | str,
        where: Callable[[Any], object] | None = None,
        name: str | None = None,
        attempts: int | None = None,
        pauses: Sequence[timedelta] | None = None,
        jitter: float | None = None,
        timeout: float | timedelta = DEFAULT_TIMEOUT,
    ) -> Callable[[F], F]: ...

    def on(self, *wanted: type[Event] | str, **options: Any) -> Callable[[F], F]:
        """Register the decorated function; it is handed back unchanged. The arguments are those of `add`."""

        def register(function: F) -> F:
            self.add(function, *wanted, **options)
            return function

        return register

    def add(
        self,
        function: Callable[..., Any],
        *wanted: type[Event] | str,
        where: Callable[[Any], object] | None = None,
        name: str | None = None,
        attempts: int | None = None,
        pauses: Sequence[timedelta] | None = None,
        jitter: float | None = None,
        timeout: float | timedelta = DEFAULT_TIMEOUT,
    ) -> None:
        """Register a function of `(event)` or `(event, ctx)`, async or plain, for some events.

        `wanted` are event classes (their subclasses included), type names, or globs of type names; `where`
        narrows them further and must be quick, as it runs in the worker's event loop. `name` is kept in the store
        and must stay the same when code moves; it is `module.function` unless given. `attempts` and `pauses`
        replace the default schedule of eight attempts, `jitter` is a share of each pause. `timeout` is in
        seconds: an async function is cancelled then and has failed, a plain one runs on and is reported.
        """
        handler_name = _checked_name(function, name)
        _check_wanted(handler_name, wanted)
        _check_where(handler_name, where)
        takes_context = _check_signature(handler_name, function)
        _check_annotation(handler_name, function, wanted)
        self._insert(
            Handler(
                name=handler_name,
                function=function,
                is_async=_is_async(function),
                takes_context=takes_context,
                wanted=wanted,
                where=where,
                schedule=_schedule(handler_name, attempts, pauses, jitter),
                timeout=_positive(handler_name, timeout),
            )
        )

    def _insert(self, handler: Handler) -> None:
        self._check_new(handler.name)
        self._handlers[handler.name] = handler

    def _check_new(self, name: HandlerName) -> None:
        if name in self._handlers:
            raise HandlerError(
                f"two handlers are named {name!r}: give one of them name=..., or list several events in one on(...)"
            )


def _fits(event: Event, wanted: type[Event] | str) -> bool:
    if isinstance(wanted, str):
        return fnmatchcase(event.type, wanted)
    return isinstance(event, wanted)


def _checked_name(function: Callable[..., Any], name: str | None) -> HandlerName:
    if not callable(function):
        raise HandlerError(f"a handler must be a function, not {function!r}")
    if name is None:
        module = getattr(function, "__module__", None)
        qualname = getattr(function, "__qualname__", None)
        if module is None or qualname is None or "<lambda>" in qualname:
            raise HandlerError(f"{function!r} has no name of its own: give it name=...")
        name = f"{module}.{qualname}"
    if not _NAME.fullmatch(name):
        raise HandlerError(f"{name!r} is no name for a handler: letters, digits, dots, dashes, at most 200")
    return HandlerName(name)


def _check_wanted(handler: HandlerName, wanted: Sequence[object]) -> None:
    if not wanted:
        raise HandlerError(f'{handler}: say which events it wants, as in on(CrawlPage) or on("crawl.*")')
    for one in wanted:
        if isinstance(one, str):
            _check_type_name(handler, one)
        elif not (isinstance(one, type) and issubclass(one, Event)):
            raise HandlerError(f"{handler}: {one!r} is neither an event class nor a type name")


def _check_type_name(handler: HandlerName, name: str) -> None:
    """Refuse names that match no type there is, unless they are of a family nobody has heard of."""
    if any(fnmatchcase(known, name) for known in EVENT_CLASSES):
        return
    family = name.partition(".")[0]
    if endings := [known for known in EVENT_CLASSES if known.endswith(f".{name}")]:
        raise HandlerError(f"{handler}: no event type matches {name!r}; did you mean {endings[0]!r}?")
    if not name or difflib.get_close_matches(family, _FAMILIES, n=1, cutoff=0.75):
        close = difflib.get_close_matches(name, EVENT_CLASSES, n=1, cutoff=0) if name else []
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise HandlerError(f"{handler}: no event type matches {name!r}{hint}")


def _check_where(handler: HandlerName, where: object) -> None:
    if where is None:
        return
    if not callable(where):
        raise HandlerError(f"{handler}: where= takes a function of the event")
    if _is_async(where):
        raise HandlerError(f"{handler}: where= takes a plain function, not an async one")
    try:
        if (signature := _signature(where)) is not None:
            signature.bind(None)
    except TypeError:
        raise HandlerError(f"{handler}: where= is called with one argument, the event") from None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return None for what does not tell, as some classes and functions of Python's own."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def _check_signature(handler: HandlerName, function: Callable[..., Any]) -> bool:
    """Return whether the function takes a context beside the event."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise HandlerError(f"{handler} is a generator; a handler returns when its work is done")
    signature = _signature(function)
    if signature is None:
        return False
    for takes_context, arguments in ((True, (None, None)), (False, (None,))):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return takes_context
    raise HandlerError(f"{handler}{signature} cannot be called as (event) or (event, ctx)")


def _check_annotation(
    handler: HandlerName, function: Callable[..., Any], wanted: Sequence[type[Event] | str]
) -> None:
    """Refuse a handler whose first parameter is annotated with another event than it is registered for."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return  # names that exist for the type checker only
    signature = _signature(function)
    first = next(iter(signature.parameters), None) if signature else None
    annotated = hints.get(first) if first else None
    accepted = [part for part in typing.get_args(annotated) or (annotated,) if isinstance(part, type)]
    if not any(issubclass(part, Event) for part in accepted):
        return
    for one in wanted:
        if isinstance(one, type) and not issubclass(one, tuple(accepted)):
            raise HandlerError(f"{handler} is registered for {one.__name__} and takes {annotated}")


def _schedule(
    handler: HandlerName,
    attempts: int | None,
    pauses: Sequence[timedelta] | None,
    jitter: float | None,
) -> RetrySchedule:
    try:
        schedule = RetrySchedule(
            DEFAULT_SCHEDULE.pauses if pauses is None else tuple(pauses),
            DEFAULT_SCHEDULE.jitter if jitter is None else jitter,
        )
        return schedule if attempts is None else schedule.limited_to(attempts)
    except (TypeError, ValueError) as exc:
        raise HandlerError(f"{handler}: {exc}") from None


def _positive(handler: HandlerName, timeout: float | timedelta) -> timedelta:
    try:
        duration = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    except (TypeError, ValueError, OverflowError):
        raise HandlerError(f"{handler}: timeout takes seconds or a timedelta, not {timeout!r}") from None
    if duration <= timedelta(0):
        raise HandlerError(f"{handler}: timeout must be more than 0 seconds")
    return duration


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asks about an object with an async __call__
    )
