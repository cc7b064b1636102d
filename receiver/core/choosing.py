"""The work items that a user chooses for an action: the plan to look at first, and the record of the action."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from receiver.core.bulk import WorkAction, WorkPlan
from receiver.core.clock import Clock, iso
from receiver.core.ports.reports import HealthReader, WorkReader
from receiver.core.ports.store import ActionLog
from receiver.core.recorded_actions import NewAction
from receiver.core.text import shortened
from receiver.core.types import HandlerName, HandlerSwitch, glob_list
from receiver.core.work import WorkFilter, WorkSummary
from receiver.errors import ReceiverError, StoreError, StoreRefused

CHUNK = 500
"""Items that one transaction changes. It is small, because acks wait for the write lock."""
_NAMED = 5
_MAX_TEXT = 500
FIRST = 3
"""Items that a plan shows as examples."""


class WorkReports(WorkReader, HealthReader, Protocol):
    """The reports that choosing work items needs."""


@dataclass(frozen=True, slots=True)
class ChosenWork:
    """The items to change: the named ones, or those that match the filter."""

    plan: WorkPlan
    """How many there are, of which kinds."""
    first: Sequence[WorkSummary]
    """The newest few."""
    switches: Mapping[HandlerName, HandlerSwitch]
    """The handlers that are not on."""
    wanted: WorkFilter
    """The filter that chose them."""
    named: Sequence[int] = ()
    """The ids of named items that can be changed."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Named items that cannot be changed, counted by state."""

    async def ids(self, reports: WorkReader, action: WorkAction) -> AsyncIterator[Sequence[int]]:
        """Yield the ids in chunks.

        A retry needs the oldest first, so that the items of a lane run in the order of arrival. Burying begins at
        the end of a lane: otherwise the next item of the lane would start to run.
        """
        if not self.named:
            async for found in reports.work_ids(self.wanted, self.plan, newest_first=not action.restarts):
                yield found
            return
        ordered = sorted(self.named, reverse=not action.restarts)
        for start in range(0, len(ordered), CHUNK):
            yield ordered[start : start + CHUNK]

    def counts_by(self, kind: str) -> Counter[str]:
        """Return how many of the planned items there are by `handler`, `type` or `state`."""
        counts: Counter[str] = Counter()
        for one, number in self.plan.kinds.items():
            counts[getattr(one, kind)] += number
        return counts

    def remarks(self, action: WorkAction) -> Iterator[str]:
        """Yield what matters for the decision: handlers that will not run the restarted items."""
        for name in dict.fromkeys(kind.handler for kind in self.plan.kinds) if action.restarts else ():
            match self.switches.get(name, HandlerSwitch.ON):
                case HandlerSwitch.PAUSED:
                    yield f"{name} is paused: they wait until it is resumed"
                case HandlerSwitch.DISABLED:
                    yield f"{name} is disabled: resume it first, or they are skipped again"


def filter_words(wanted: WorkFilter) -> dict[str, str]:
    """Return a filter as flags and their values, with absolute moments."""
    given: dict[str, object] = {
        "type": wanted.type,
        "job": wanted.job_id,
        "since": wanted.since and iso(wanted.since),
        "until": wanted.until and iso(wanted.until),
        "handler": ",".join(glob_list(wanted.handler)),
        "state": wanted.state,
        "error": wanted.error,
        "action": wanted.action,
    }
    return {name: str(value) for name, value in given.items() if value}


def described(work_ids: Sequence[int], words: Mapping[str, str]) -> str:
    """Return in words which items are chosen: by their ids, or by a filter."""
    if work_ids:
        named = ", ".join(f"#{one}" for one in work_ids[:_NAMED])
        return f"work item{'s' if len(work_ids) > 1 else ''} {named}{' …' if len(work_ids) > _NAMED else ''}"
    return shortened("work items with " + ", ".join(f"{name} {value}" for name, value in words.items()), _MAX_TEXT)


async def choose_named(reports: WorkReports, action: WorkAction, work_ids: Sequence[int]) -> ChosenWork:
    """Choose the items with these ids; raise UnknownWork if one does not exist."""
    items = [(await reports.work_item(work_id)).summary for work_id in sorted(set(work_ids), reverse=True)]
    chosen = [one for one in items if action.can_change(one)]
    left_out = Counter(one.state.value for one in items if not action.can_change(one))
    named = [one.id for one in chosen]
    return ChosenWork(WorkPlan.of(chosen), chosen[:FIRST], await reports.switches(), WorkFilter(), named, left_out)


async def choose_matching(reports: WorkReports, action: WorkAction, wanted: WorkFilter) -> ChosenWork:
    """Choose the items of a filter that the action changes."""
    narrowed = action.narrowed(wanted)
    plan = await reports.work_plan(narrowed)
    newest = reports.work_ids(narrowed, replace(plan, count=min(plan.count, FIRST)), newest_first=True)
    first = [(await reports.work_item(work_id)).summary async for some in newest for work_id in some]
    return ChosenWork(plan, first, await reports.switches(), narrowed)


STOPPED = "it was stopped"


@asynccontextmanager
async def recorded(log: ActionLog, clock: Clock, action: NewAction) -> AsyncIterator[int]:
    """Record that an action begins, yield its number, and record how the block ended."""
    number = await log.begin_action(action, now=clock.now())
    try:
        yield number
    except BaseException as exc:
        await end_early(log, clock, number, reason_of(exc))
        raise
    await log.end_action(number, now=clock.now())


async def end_early(log: ActionLog, clock: Clock, number: int, reason: str) -> None:
    """Record why an action has ended before it was done, if the store can be written."""
    try:
        await log.end_action(number, now=clock.now(), error=reason[:_MAX_TEXT])
    except (StoreError, StoreRefused):
        return  # it is shown as interrupted, after a while


def reason_of(error: BaseException) -> str:
    """Return why an action ended early. Only errors written for people are shown."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        return STOPPED
    return str(error) if isinstance(error, ReceiverError) else f"a fault of the program: {type(error).__name__}"
