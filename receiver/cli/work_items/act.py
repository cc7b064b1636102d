"""`receiver work-items bury`: discard work items."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import click

from receiver.cli.common.confirm import agreed, carry_out, count_lines, say, say_part, span_and_first
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import (
    WORK_ID,
    plan_options,
    store_option,
    text,
    with_whole_job_id,
    work_filter_options,
)
from receiver.cli.common.output import note, terminal_width
from receiver.cli.common.store import configured_store, decide_reading, now_of, read, recording
from receiver.core.bulk import BURY, RETRY, WorkAction
from receiver.core.choosing import ChosenWork, choose_matching, choose_named, described, filter_words
from receiver.core.clock import local_time
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls
from receiver.core.text import counted, escape_controls, shortened
from receiver.core.types import WorkState
from receiver.core.work import WorkFilter, WorkSummary
from receiver.settings import Settings, load_settings

# FOLDED: One action on many work items: the plan, the question, the change and the summary.
_NOUN = "work item"
_ERROR_WIDTH = 80

Change = Callable[[Controls, Sequence[int], int], Awaitable[int]]
"""Changes the items with these ids for the recorded action with a number, and returns how many it changed."""


def act(
    action: WorkAction,
    change: Change,
    settings: Settings,
    work_ids: Sequence[int],
    wanted: WorkFilter,
    *,
    yes: bool,
    dry_run: bool,
) -> int:
    """Show the plan, ask, make the change and say what was changed; return the exit code."""
    _check_choice(action, work_ids, wanted)
    chosen = read(
        settings,
        lambda reports: choose_named(reports, action, work_ids) if work_ids else _matching(reports, action, wanted),
    )
    count = chosen.plan.count
    if not count:
        note(_nothing(action, chosen))
        return OK
    for line in _plan_lines(action, chosen):
        say(line)
    _say_remarks(action, chosen)
    if dry_run:
        return OK
    if not agreed(f"{action.verb.capitalize()} {counted(count, _NOUN)}?", yes=yes):
        return FAILED

    words = filter_words(wanted)
    about = described(chosen.named, words)
    choice = {} if wanted.limit is not None or work_ids else words  # only a filter goes on by itself
    changed = _carry_out(action, change, settings, chosen, about, choice, limited=wanted.limit is not None)
    left = count - changed + chosen.left_out.total()
    say(
        f"{action.past} {counted(changed, _NOUN)}" + (f"; {left:,} left alone: {action.left_alone}" if left else "")
    )
    return OK


def _carry_out(
    action: WorkAction,
    change: Change,
    settings: Settings,
    chosen: ChosenWork,
    about: str,
    choice: Mapping[str, str],
    *,
    limited: bool,
) -> int:
    """Change the chosen items; return how many were changed."""
    count = chosen.plan.count

    async def do(reports: Reports, controls: Controls) -> int:
        store = configured_store(settings)
        async with recording(controls, store, action.verb, about, planned=count, choice=choice) as recorded:
            return await carry_out(
                chosen.ids(reports, action),
                lambda ids: change(controls, ids, recorded.number),
                planned=count,
                noun=_NOUN,
                done=action.past,
                limited=limited,
            )

    return decide_reading(settings, do)


def _check_choice(action: WorkAction, work_ids: Sequence[int], wanted: WorkFilter) -> None:
    """Refuse to act on everything by accident."""
    if work_ids and wanted != WorkFilter():
        raise click.UsageError("choose by IDs or by filters, not by both")
    if not work_ids and replace(wanted, limit=None) == WorkFilter():
        raise click.UsageError(
            f"choose the work items to {action.verb}: give their IDs, or at least one filter "
            "(--handler '*' chooses all)"
        )


async def _matching(reports: Reports, action: WorkAction, wanted: WorkFilter) -> ChosenWork:
    return await choose_matching(reports, action, await with_whole_job_id(reports, wanted))


def _example(item: WorkSummary) -> str:
    reason = shortened(item.last_error or item.note or "", _ERROR_WIDTH)
    cells = (str(item.id), local_time(item.received_at), item.type, item.handler, item.state.value, reason)
    return "  ".join(cells).rstrip()


def _nothing(action: WorkAction, chosen: ChosenWork) -> str:
    takes = f"{action.verb} takes {_takes(action)}"
    if chosen.left_out:
        return f"nothing to {action.verb}: {_by_state(chosen.left_out)}; {takes}"
    return f"no work item matched; {takes}"


def _takes(action: WorkAction) -> str:
    """Return the states of an action in words, the dead apart if it does not take all of them."""
    if action.restarts:
        return f"{_either(action.takes)} items"
    others = [state for state in action.takes if state is not WorkState.DEAD]
    return f"{_either(others)} items, and dead ones that hold their lane"


def _either(states: Sequence[WorkState]) -> str:
    return f"{', '.join(states[:-1])} or {states[-1]}"


def _by_state(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in counts.most_common())


def _plan_lines(action: WorkAction, chosen: ChosenWork) -> Iterator[str]:
    """Yield how many items there are, by handler, type and state, their span of time, and the newest few."""
    plan = chosen.plan
    yield f"{counted(plan.count, _NOUN)} to {action.verb}"
    for kind in ("handler", "type", "state"):
        yield from count_lines(kind, chosen.counts_by(kind), plan.others)
    yield from span_and_first(plan.first_at, plan.last_at, map(_example, chosen.first), width=terminal_width())


def _say_remarks(action: WorkAction, chosen: ChosenWork) -> None:
    """Write facts that matter for the decision."""
    if chosen.left_out:
        say_part("left out", _by_state(chosen.left_out))
    for remark in chosen.remarks(action):
        say_part("note", escape_controls(remark))


def _reason(value: str) -> str:
    """Accept a text that is not blank."""
    if not value.strip():
        raise click.BadParameter("give a reason")
    return text(value.strip())


@click.command()
@click.argument("work_ids", metavar="[ID]...", nargs=-1, type=WORK_ID)
@work_filter_options(BURY.takes)
@click.option("--reason", required=True, type=_reason, metavar="TEXT", help="Why; kept as the error of each item.")
@plan_options
@store_option
def bury(
    work_ids: Sequence[int], wanted: WorkFilter, reason: str, yes: bool, dry_run: bool, store: str | None
) -> int:
    """Discard work items: they become dead.

    They run again only after `work-items retry`. Choose them by their IDs or by filters: items that wait, that are
    queued in their lane, that are held, and dead ones that hold their lane, which then goes on. The command shows a
    plan first.
    """
    settings = load_settings(store=store)

    async def change(controls: Controls, ids: Sequence[int], action: int) -> int:
        return await controls.bury(ids, reason, now=await now_of(configured_store(settings)), action=action)

    return act(BURY, change, settings, work_ids, wanted, yes=yes, dry_run=dry_run)


# FOLDED: `receiver work-items retry`: run work items again.
@click.command()
@click.argument("work_ids", metavar="[ID]...", nargs=-1, type=WORK_ID)
@work_filter_options(RETRY.takes)
@plan_options
@store_option
def retry(work_ids: Sequence[int], wanted: WorkFilter, yes: bool, dry_run: bool, store: str | None) -> int:
    """Run work items again, now and with all their attempts.

    Choose them by their IDs or by filters. Filters choose dead and skipped items; --state chooses others, such as
    items that wait for a later attempt or are held. The command shows a plan first.
    """
    settings = load_settings(store=store)

    async def change(controls: Controls, ids: Sequence[int], action: int) -> int:
        return await controls.retry(ids, now=await now_of(configured_store(settings)), action=action)

    return act(RETRY, change, settings, work_ids, wanted, yes=yes, dry_run=dry_run)
