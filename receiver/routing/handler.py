"""A registered function with its conditions and its policy."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from receiver.core.retries import RetrySchedule
from receiver.core.types import HandlerName
from receiver.events import Event, ScheduledRun
from receiver.routing.introspection import Needs
from receiver.routing.policies import AfterPages, Batch, Lane, Rate, RunsIn
from receiver.routing.schedules import RunTimes
from receiver.routing.wanted import EventChoice, fits


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
