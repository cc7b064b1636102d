"""A registered function with its conditions and its policy."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from receiver.core.retries import RetrySchedule
from receiver.core.types import HandlerName
from receiver.events import Event
from receiver.routing.introspection import Needs
from receiver.routing.policies import AfterPages, Batch, Lane, Rate, RunsIn
from receiver.routing.wanted import EventChoice, fits


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function with its conditions and its policy.

    `context_name` is the parameter that takes the context by name; with None it is the second argument.
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

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop and can be cancelled."""
        return self.runs_in is RunsIn.LOOP

    def wants(self, event: Event) -> bool:
        """Tell whether class, name or glob fit, and `where` agrees. What `where` raises comes through."""
        return self.is_for(event) and (self.where is None or bool(self.where(event)))

    def is_for(self, event: Event) -> bool:
        """Tell whether class, name or glob fit."""
        for wanted in self.wanted:  # noqa: SIM110 - `any` takes twice as long, and each event comes by here
            if fits(event, wanted):
                return True
        return False
