"""What handlers did in the last hour and day, as the pages show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from receiver.core.activity import Performance, by_step, performance
from receiver.core.arrivals import MINUTE
from receiver.core.ports.reports import HealthReader
from receiver.core.types import HandlerName
from receiver.web.console.charts import attempt_bars

_SPANS = (("hour", timedelta(hours=1), MINUTE), ("day", timedelta(days=1), 15 * MINUTE))


@dataclass(frozen=True, slots=True)
class ShownActivity:
    """The attempts of a span of time."""

    name: str
    """Its name: hour or day."""
    chart: Markup
    """How many succeeded and failed in each step."""
    performance: Performance
    """How they went."""
    per_minute: float
    """How many ended in a minute on average."""


async def read_activity(
    reports: HealthReader, now: datetime, handler: HandlerName | None = None
) -> Sequence[ShownActivity]:
    """Return what all handlers did, or one, in the last hour and in the last day."""
    return [await _span(reports, now, handler, *span) for span in _SPANS]


async def _span(
    reports: HealthReader, now: datetime, handler: HandlerName | None, name: str, span: timedelta, step: timedelta
) -> ShownActivity:
    size = step // MINUTE
    end = now.replace(second=0, microsecond=0)
    end -= (end.minute + end.hour * 60) % size * MINUTE
    steps = [end - at * step for at in range(span // step - 1, -1, -1)]
    counts = [
        one
        for one in await reports.activity(since=steps[0], step=step, handler=handler)
        if one.begins_at <= end  # a clock may have been ahead
    ]
    found = performance(counts)
    minutes = max((now - steps[0]) / MINUTE, 1)
    return ShownActivity(name, attempt_bars(by_step(counts, steps), step=step), found, found.attempts / minutes)
