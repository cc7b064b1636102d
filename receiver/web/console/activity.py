"""What handlers did in the last hour and day, as the pages show it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from receiver.core.activity import MINUTE, ActivityCount, Performance, by_step, performance
from receiver.core.ports.reports import HealthReader
from receiver.core.types import HandlerName
from receiver.web.console.charts import attempt_bars
from receiver.web.console.traffic import last_steps

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
    handlers: Mapping[HandlerName, Performance]
    """How those of each handler went. A handler without any is absent."""


async def read_activity(
    reports: HealthReader, now: datetime, handler: HandlerName | None = None
) -> Sequence[ShownActivity]:
    """Return what all handlers did, or one, in the last hour and in the last day."""
    return [await _span(reports, now, handler, *span) for span in _SPANS]


async def _span(
    reports: HealthReader, now: datetime, handler: HandlerName | None, name: str, span: timedelta, step: timedelta
) -> ShownActivity:
    steps = last_steps(now, span, step)
    counts = [
        one
        for one in await reports.activity(since=steps[0], step=step, handler=handler)
        if one.begins_at <= steps[-1]  # a clock may have been ahead
    ]
    found = performance(counts)
    minutes = max((now - steps[0]) / MINUTE, 1)
    chart = attempt_bars(by_step(counts, steps), step=step)
    return ShownActivity(name, chart, found, found.attempts / minutes, _by_handler(counts))


def _by_handler(counts: Sequence[ActivityCount]) -> Mapping[HandlerName, Performance]:
    mine: dict[HandlerName, list[ActivityCount]] = {}
    for one in counts:
        mine.setdefault(one.handler, []).append(one)
    return {name: performance(some) for name, some in mine.items()}
