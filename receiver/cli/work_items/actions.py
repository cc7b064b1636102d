"""`receiver work-items retry` and `bury`: decide about many work items at one time."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import click

from receiver.cli.common.confirm import CHUNK, agreed, carry_out, count_lines, say, span_and_first
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import plan_options, store_option, text, work_filter_options
from receiver.cli.common.output import iso, note
from receiver.cli.common.store import decide_reading, read
from receiver.core.bulk import WorkPlan
from receiver.core.clock import SystemClock
from receiver.core.ports.controls import Controls
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, escape_controls, shortened
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.work import WorkFilter, WorkSummary
from receiver.settings import Settings, load_settings

WORK_ID = click.IntRange(min=0, max=2**63 - 1)
_NOUN = "work item"
_FIRST = 3
_SAMPLE_ERROR = 80


@dataclass(frozen=True, slots=True)
class _Action:
    """What is done to many work items at one time, and to which of them."""

    verb: str
    done: str
    takes: tuple[WorkState, ...]
    """What it can change."""
    unasked: tuple[WorkState, ...]
    """What filters choose of that when they name no state."""
    leaves: str
    """What is to be said of those that it cannot change."""
    revives: bool
    """Whether the items run again."""

    def filter(self, wanted: WorkFilter) -> WorkFilter:
        """Return the filter for what it changes of the wanted items."""
        among = self.unasked if wanted.state is None else ()
        return replace(wanted, among=among, stuck=not self.revives)

    def can_change(self, item: WorkSummary) -> bool:
        """Tell whether it changes such an item. A dead one can be buried only if its lane stands still for it."""
        return item.state in self.takes and (self.revives or item.state is not WorkState.DEAD or item.holds_lane)


_RETRY = _Action(
    "retry",
    "retried",
    takes=(WorkState.DEAD, WorkState.SKIPPED, WorkState.WAITING, WorkState.HELD),
    unasked=(WorkState.DEAD, WorkState.SKIPPED),
    leaves="they run now, are queued in their lane, or are over",
    revives=True,
)
_BURY = _Action(
    "bury",
    "buried",
    takes=(WorkState.WAITING, WorkState.QUEUED, WorkState.HELD, WorkState.DEAD),
    unasked=(WorkState.WAITING, WorkState.QUEUED, WorkState.HELD, WorkState.DEAD),
    leaves="they run now or are over",
    revives=False,
)


def _reason(value: str) -> str:
    """Accept words."""
    if not value.strip():
        raise click.BadParameter("say why in some words")
    return text(value.strip())


@click.command()
@click.argument("work_ids", metavar="[ID]...", nargs=-1, type=WORK_ID)
@work_filter_options(_RETRY.takes)
@plan_options
@store_option
def retry(work_ids: Sequence[int], wanted: WorkFilter, yes: bool, dry_run: bool, store: str | None) -> int:
    """Run work items again, at once and with a fresh schedule.

    Say which by their IDs or by filters. Filters choose dead and skipped ones; with --state also those that wait
    for a later attempt, or are held. A plan is shown first.
    """

    async def change(controls: Controls, ids: Sequence[int]) -> int:
        return await controls.retry(ids, now=SystemClock().now())

    return _act(_RETRY, change, load_settings(store=store), work_ids, wanted, yes=yes, dry_run=dry_run)


@click.command()
@click.argument("work_ids", metavar="[ID]...", nargs=-1, type=WORK_ID)
@work_filter_options(_BURY.takes)
@click.option("--reason", required=True, type=_reason, metavar="TEXT", help="Why; it is kept as the item's error.")
@plan_options
@store_option
def bury(
    work_ids: Sequence[int], wanted: WorkFilter, reason: str, yes: bool, dry_run: bool, store: str | None
) -> int:
    """Give work items up: they are dead, and run again only if they are retried.

    Say which by their IDs or by filters. This takes what waits, is queued in its lane or held, and dead ones that
    hold their lane, which is free afterwards. A plan is shown first.
    """

    async def change(controls: Controls, ids: Sequence[int]) -> int:
        return await controls.bury(ids, reason, now=SystemClock().now())

    return _act(_BURY, change, load_settings(store=store), work_ids, wanted, yes=yes, dry_run=dry_run)


def _act(
    action: _Action,
    change: Callable[[Controls, Sequence[int]], Awaitable[int]],
    settings: Settings,
    work_ids: Sequence[int],
    wanted: WorkFilter,
    *,
    yes: bool,
    dry_run: bool,
) -> int:
    """Show the plan, ask, do it, and say what was done; return the exit code."""
    _check_choice(action, work_ids, wanted)
    scene = read(
        settings,
        lambda reports: _named(reports, action, work_ids) if work_ids else _fitting(reports, action.filter(wanted)),
    )
    count = scene.plan.count
    if not count:
        note(_nothing(action, scene))
        return OK
    for line in (*_plan_lines(action, scene), *_remarks(action, scene)):
        say(line)
    if dry_run:
        return OK
    if not agreed(f"{action.verb.capitalize()} {counted(count, _NOUN)}?", yes=yes):
        return FAILED

    async def do(reports: Reports, controls: Controls) -> int:
        return await carry_out(
            scene.ids(reports, oldest_first=action.revives),
            lambda ids: change(controls, ids),
            planned=count,
            noun=_NOUN,
            done=action.done,
            limited=wanted.limit is not None,
        )

    changed = decide_reading(settings, do)
    left = count - changed + scene.left_out.total()
    say(f"{action.done} {counted(changed, _NOUN)}" + (f"; {left:,} left alone: {action.leaves}" if left else ""))
    return OK


def _check_choice(action: _Action, work_ids: Sequence[int], wanted: WorkFilter) -> None:
    """Refuse to act on everything by accident."""
    if work_ids and wanted != WorkFilter():
        raise click.UsageError("choose by IDs or by filters, not by both")
    if not work_ids and replace(wanted, limit=None) == WorkFilter():
        raise click.UsageError(
            f"say which work items to {action.verb}: by their IDs, or by one filter at least "
            "(--handler '*' is every one of them)"
        )


@dataclass(frozen=True, slots=True)
class _Scene:
    """What is going to be changed: the named items, or what fits the filter; and what to know before deciding."""

    plan: WorkPlan
    first: Sequence[WorkSummary]
    """The newest few."""
    switches: Mapping[HandlerName, HandlerSwitch]
    wanted: WorkFilter
    named: Sequence[int] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    """Items that were named and cannot be changed, by state."""

    async def ids(self, reports: Reports, *, oldest_first: bool) -> AsyncIterator[Sequence[int]]:
        """Yield the ids, some at a time.

        Retried items of a lane are to come in the order of arrival; and a lane is buried from its end, or the next
        one would come forward and run.
        """
        if not self.named:
            async for found in reports.work_ids(self.wanted, self.plan, newest_first=not oldest_first):
                yield found
            return
        ordered = sorted(self.named, reverse=not oldest_first)
        for start in range(0, len(ordered), CHUNK):
            yield ordered[start : start + CHUNK]


async def _named(reports: Reports, action: _Action, work_ids: Sequence[int]) -> _Scene:
    items = [(await reports.work_item(work_id)).summary for work_id in sorted(set(work_ids), reverse=True)]
    chosen = [one for one in items if action.can_change(one)]
    left_out = Counter(one.state.value for one in items if not action.can_change(one))
    named = [one.id for one in chosen]
    return _Scene(WorkPlan.of(chosen), chosen[:_FIRST], await reports.switches(), WorkFilter(), named, left_out)


async def _fitting(reports: Reports, wanted: WorkFilter) -> _Scene:
    plan = await reports.work_plan(wanted)
    newest = reports.work_ids(wanted, replace(plan, count=min(plan.count, _FIRST)), newest_first=True)
    first = [(await reports.work_item(work_id)).summary async for some in newest for work_id in some]
    return _Scene(plan, first, await reports.switches(), wanted)


def _sample(item: WorkSummary) -> str:
    told = shortened(item.last_error or item.note or "", _SAMPLE_ERROR)
    cells = (str(item.id), iso(item.received_at, "seconds"), item.type, item.handler, item.state.value, told)
    return "  ".join(cells).rstrip()


def _nothing(action: _Action, scene: _Scene) -> str:
    takes = " or ".join([", ".join(action.takes[:-1]), action.takes[-1]])
    if scene.left_out:
        return f"nothing to {action.verb}: {_by_state(scene.left_out)}; {action.verb} takes {takes} ones"
    return f"no work item fits; {action.verb} takes {takes} ones"


def _by_state(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in counts.most_common())


def _plan_lines(action: _Action, scene: _Scene) -> Iterator[str]:
    """Yield how many items there are, by what, their span and the newest."""
    plan = scene.plan
    yield f"{counted(plan.count, _NOUN)} to {action.verb}"
    for kind in ("handler", "type", "state"):
        counts: Counter[str] = Counter()
        for one, number in plan.kinds.items():
            counts[getattr(one, kind)] += number
        yield from count_lines(kind, counts, plan.others)
    yield from span_and_first(plan.first_at, plan.last_at, map(_sample, scene.first))


def _remarks(action: _Action, scene: _Scene) -> Iterator[str]:
    """Yield what somebody should know before deciding."""
    if scene.left_out:
        yield f"  left out  {_by_state(scene.left_out)}"
    for name in dict.fromkeys(kind.handler for kind in scene.plan.kinds) if action.revives else ():
        match scene.switches.get(name, HandlerSwitch.ON):
            case HandlerSwitch.PAUSED:
                yield f"  note      {escape_controls(name)} is paused: they wait until it is resumed"
            case HandlerSwitch.DISABLED:
                yield f"  note      {escape_controls(name)} is disabled: resume it first, or they are skipped again"
