"""`receiver work-items retry` and `bury`: decide about many work items at one time."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import click

from receiver.cli.main import FAILED, OK
from receiver.cli.options import plan_options, store_option, text, work_filter_options
from receiver.cli.output import counted, harmless, iso, note, shortened
from receiver.cli.plans import CHUNK, Plan, agreed, carry_out, say
from receiver.cli.progress import progress
from receiver.cli.stores import decide, read
from receiver.clock import SystemClock
from receiver.ports import Controls, Reports
from receiver.records import WorkFilter, WorkSummary
from receiver.settings import Settings, load_settings
from receiver.types import HandlerName, HandlerSwitch, WorkState

WORK_ID = click.IntRange(min=0, max=2**63 - 1)
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
    with Plan("work item", by=("handler", "type", "state")) as plan:
        scene = read(settings, lambda reports: _planned(plan, action, reports, work_ids, wanted))
        if not plan.count:
            note(_nothing(action, scene))
            return OK
        for line in (*plan.lines(action.verb), *_remarks(action, plan, scene)):
            say(line)
        if dry_run:
            return OK
        if not agreed(f"{action.verb.capitalize()} {counted(plan.count, plan.noun)}?", yes=yes):
            return FAILED
        changed = decide(settings, lambda controls: _carry_out(action, plan, partial(change, controls), wanted))
    left = plan.count - changed + scene.left_out.total()
    say(
        f"{action.done} {counted(changed, plan.noun)}" + (f"; {left:,} left alone: {action.leaves}" if left else "")
    )
    return OK


async def _carry_out(
    action: _Action, plan: Plan, change: Callable[[Sequence[int]], Awaitable[int]], wanted: WorkFilter
) -> int:
    # The plan has the newest first. Retried items of a lane are to come in the order of arrival; and a lane is
    # buried from its end, or the next one would come forward and run.
    limited = wanted.limit is not None
    return await carry_out(plan, change, done=action.done, backwards=action.revives, limited=limited)


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
    """What the plan was made from, beside the items in it."""

    left_out: Counter[str]
    """Items that were named and cannot be changed, by state."""
    switches: Mapping[HandlerName, HandlerSwitch]


async def _planned(
    plan: Plan, action: _Action, reports: Reports, work_ids: Sequence[int], wanted: WorkFilter
) -> _Scene:
    """Fill the plan, the newest item first."""
    chosen = _named(reports, work_ids) if work_ids else _fitting(reports, wanted, action.unasked)
    left_out: Counter[str] = Counter()
    with progress("looking", None) as advance:
        async for item in chosen:
            if action.can_change(item):
                kinds = (item.handler, item.type, item.state.value)
                plan.add(item.id, item.received_at, kinds, partial(_sample, item))
                if plan.count % CHUNK == 0:
                    advance(CHUNK)
            elif work_ids:
                left_out[item.state.value] += 1
            if plan.count == wanted.limit:
                break
    return _Scene(left_out, await reports.switches())


async def _named(reports: Reports, work_ids: Sequence[int]) -> AsyncIterator[WorkSummary]:
    for work_id in sorted(set(work_ids), reverse=True):
        yield (await reports.work_item(work_id)).summary


async def _fitting(reports: Reports, wanted: WorkFilter, states: Sequence[WorkState]) -> AsyncIterator[WorkSummary]:
    """Yield the wanted items, the newest first; those in any of these states unless the filter names one."""
    asked = states if wanted.state is None else (wanted.state,)
    listings = [reports.work_items(replace(wanted, state=state, limit=None)) for state in asked]
    heads = {listing: item for listing in listings if (item := await anext(listing, None)) is not None}
    last: int | None = None
    while heads:
        listing = max(heads, key=lambda one: heads[one].id)
        item = heads.pop(listing)
        if last is None or item.id < last:  # one whose state changes meanwhile can be met twice
            yield item
            last = item.id
        if (following := await anext(listing, None)) is not None:
            heads[listing] = following


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


def _remarks(action: _Action, plan: Plan, scene: _Scene) -> Iterator[str]:
    """Yield what somebody should know before deciding."""
    if scene.left_out:
        yield f"  left out  {_by_state(scene.left_out)}"
    for name in plan.counts("handler") if action.revives else ():
        match scene.switches.get(HandlerName(name), HandlerSwitch.ON):
            case HandlerSwitch.PAUSED:
                yield f"  note      {harmless(name)} is paused: they wait until it is resumed"
            case HandlerSwitch.DISABLED:
                yield f"  note      {harmless(name)} is disabled: resume it first, or they are skipped again"
