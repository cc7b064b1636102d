"""A handler, its options, and the events that it wants."""

import difflib
import functools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import receiver.events as events
from receiver.core.retries import RetrySchedule
from receiver.core.text import did_you_mean
from receiver.core.types import HandlerName
from receiver.errors import HandlerError
from receiver.events import EVENT_CLASSES, Event, ScheduledRun, TerminalEvent, UnknownEvent
from receiver.routing.introspection import Needs
from receiver.routing.policies import AfterPages, Batch, Lane, Rate, RunsIn
from receiver.routing.schedules import RunTimes

EventChoice = type[Event] | str
"""An event class, a type name, or a glob of type names."""

_FAMILIES = sorted({name.partition(".")[0] for name in EVENT_CLASSES})


def fits(event: Event, wanted: EventChoice) -> bool:
    """Return whether an event has this class, or its type matches this name or glob."""
    if isinstance(wanted, str):
        # Other types have any length, so they are not kept.
        return (_matches if event.type in EVENT_CLASSES else fnmatchcase)(event.type, wanted)
    # `isinstance` asks the metaclass of models, which takes five times as long.
    return wanted in type(event).__mro__


_matches = functools.lru_cache(maxsize=1_024)(fnmatchcase)


def wants_type(wanted: Sequence[EventChoice], event_type: str) -> bool:
    """Return whether events of a known type can match."""
    known = EVENT_CLASSES[event_type]
    return any(fnmatchcase(event_type, one) if isinstance(one, str) else issubclass(known, one) for one in wanted)


def classes_of(one: EventChoice) -> Sequence[type[Event]]:
    """Return the classes of the events that can match: for a glob those of the known types, for `*` just Event."""
    if not isinstance(one, str):
        return [one]
    if not one.strip("*"):
        return [Event]
    return [known for name, known in EVENT_CLASSES.items() if fnmatchcase(name, one)] or [UnknownEvent]


def common_class(classes: Sequence[type[Event]]) -> type[Event]:
    """Return the narrowest event class that covers these."""
    return next(one for one in classes[0].__mro__ if all(issubclass(other, one) for other in classes))


def page_type(event_type: str) -> str | None:
    """Return the type of a job's page events, given that of its last event: `crawl.page` for `crawl.completed`.

    Return None for events that do not end a job, and for jobs without pages.
    """
    pages = event_type.partition(".")[0] + ".page"
    ends_a_job = issubclass(EVENT_CLASSES.get(event_type, Event), TerminalEvent)
    return pages if ends_a_job and pages in EVENT_CLASSES else None


def require_wanted(handler: str, wanted: Sequence[object], *, with_runs: bool = False) -> None:
    """Raise HandlerError unless such events exist, or may exist in a later version of the service.

    Scheduled runs, which are not events of the service, are accepted only `with_runs`.
    """
    if not wanted:
        raise HandlerError(f'{handler}: say which events it wants, as in on(CrawlPage) or on("crawl.*")')
    for one in wanted:
        if isinstance(one, str):
            _require_type_name(handler, one)
        elif one is ScheduledRun and not with_runs:
            raise HandlerError(
                f"{handler}: a ScheduledRun comes only to the handler that it is for; "
                'register the function with its schedule, as in every("5 minutes")'
            )
        elif not (isinstance(one, type) and issubclass(one, Event)):
            raise HandlerError(
                f"{handler}: {one!r} is neither an event class nor a type name; "
                'write them one by one, as in on(CrawlPage, CrawlCompleted) or on("crawl.*")'
            )


def require_job_ends(handler: str, wanted: Sequence[EventChoice]) -> None:
    """Raise HandlerError unless all wanted events are last events of jobs with pages."""
    for one in wanted:
        known = [name for name in EVENT_CLASSES if wants_type((one,), name)]
        other = next((name for name in known if page_type(name) is None), None)
        if other or not known:
            shown = repr(one) if isinstance(one, str) else one.__name__
            instead = f"{shown} includes {other}" if known else f"no known type is like {shown}"
            raise HandlerError(
                f"{handler}: after_pages= is for the last event of jobs with pages, "
                f"such as CrawlCompleted or MonitorCheckCompleted, and {instead}"
            )


def _require_type_name(handler: str, name: str) -> None:
    """Refuse names that match no known type, unless they belong to an unknown family."""
    if any(fnmatchcase(known, name) for known in EVENT_CLASSES):
        return
    if name in events.__all__:
        raise HandlerError(f"{handler}: {name!r} is the name of a class, not of a type; write it without quotes")
    family, dot, kind = name.partition(".")
    if endings := [known for known in EVENT_CLASSES if known.endswith(f".{name}")]:
        raise HandlerError(f"{handler}: no event type matches {name!r}{did_you_mean([repr(endings[0])])}")
    if not name or difflib.get_close_matches(family, _FAMILIES, n=1, cutoff=0.75):
        families = [f"{one}{dot}{kind}" for one in difflib.get_close_matches(family, _FAMILIES, n=1)]
        close = [one for one in families if any(fnmatchcase(known, one) for known in EVENT_CLASSES)]
        close = close or (difflib.get_close_matches(name, EVENT_CLASSES, n=1, cutoff=0) if name else [])
        raise HandlerError(f"{handler}: no event type matches {name!r}{did_you_mean(list(map(repr, close)))}")


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function with its conditions and its policy.

    `context_name` is the parameter that takes the context by name; if it is None, the context is the second
    argument. With `times` the handler runs by itself. With `only_later` it runs for `ctx.later` only, not for
    deliveries.
    """

    name: HandlerName
    function: Callable[..., Any]
    wanted: tuple[EventChoice, ...]
    where: Callable[[Any], object] | None
    schedule: RetrySchedule
    timeout: timedelta
    runs_in: RunsIn
    takes_context: bool = False
    context_name: str | None = None
    needs: Needs = ()
    lane: Lane | None = None
    after_pages: AfterPages | None = None
    batch: Batch | None = None
    concurrency: int | None = None
    rate: Rate | None = None
    retry_on: tuple[type[BaseException], ...] = ()
    give_up_on: tuple[type[BaseException], ...] = ()
    times: RunTimes | None = None
    only_later: bool = False

    def in_this_process(self) -> "Handler":
        """Return this handler; a function for processes runs in a thread instead."""
        return replace(self, runs_in=RunsIn.THREAD) if self.runs_in is RunsIn.PROCESS else self

    def wants(self, event: Event) -> bool:
        """Return whether an event class, name or glob matches and `where` agrees.

        Raises what `where` raises, and TypeError if it returns a coroutine, which would always be true.
        """
        if not self.is_for(event):
            return False
        if self.where is None:
            return True
        answer = self.where(event)
        if isinstance(answer, Coroutine):
            answer.close()  # or Python warns that it was never awaited
            raise TypeError("where= returned a coroutine: write a plain function, because it is not awaited")
        return bool(answer)

    def is_for(self, event: Event) -> bool:
        """Return whether an event class, name or glob matches. A scheduled run matches its own handler only."""
        if type(event) is ScheduledRun:  # `isinstance` asks the metaclass of models, for each event
            return event.name == self.name if self.times is not None else ScheduledRun in self.wanted
        for wanted in self.wanted:  # noqa: SIM110 - `any` takes twice as long, and this runs for each event
            if fits(event, wanted):
                return True
        return False
