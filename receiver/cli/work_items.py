"""`receiver work-items`: look at work items, run them again, or discard them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import click

from receiver.cli.common.confirm import agreed, carry_out, count_lines, say, say_part, span_and_first
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import (
    WORK_ID,
    hint,
    json_option,
    plan_options,
    store_option,
    text,
    with_whole_job_id,
    work_filter_options,
    work_list_options,
)
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import (
    duration,
    note,
    shown,
    terminal_width,
    with_local_times,
    write_json,
    write_line,
)
from receiver.cli.common.store import configured_store, decide_reading, now_of, read, recording
from receiver.cli.common.tables import (
    GAP,
    NOTHING,
    Column,
    ListForm,
    Listing,
    form_options,
    job_column,
    moment_column,
    wrapped,
)
from receiver.core.bulk import BURY, RETRY, WorkAction
from receiver.core.choosing import ChosenWork, choose_matching, choose_named, described, filter_words
from receiver.core.clock import local_time
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls
from receiver.core.text import counted, escape_controls, short_id, shortened
from receiver.core.types import WorkState
from receiver.core.views import explanation, run_time, work_detail, work_summary
from receiver.core.work import Attempt, WorkDetail, WorkFilter, WorkSummary
from receiver.core.work_states import MOVES, mermaid
from receiver.settings import Settings, load_reading_settings, load_settings

_STYLES = {
    WorkState.WAITING: "yellow",
    WorkState.QUEUED: "yellow",
    WorkState.HELD: "yellow",
    WorkState.RUNNING: "cyan",
    WorkState.DEAD: "red",
    WorkState.SKIPPED: "dim",
}


@click.group("work-items", cls=CommandGroup)
def work_items() -> None:
    """Look at work items, run them again, or discard them.

    There is one work item for each delivery and handler.
    """


@work_items.command("list")
@work_list_options
@form_options(lambda: _COLUMNS)
@store_option
def list_(wanted: WorkFilter, form: ListForm, store: str | None) -> None:
    """List work items, the newest first."""

    async def report(reports: Reports) -> None:
        await _WORK_ITEMS.write(
            reports.work_items, await with_whole_job_id(reports, wanted), form, lambda wanted: hint(reports, wanted)
        )

    read(load_reading_settings(store=store), report)


_COLUMNS: tuple[Column[WorkSummary], ...] = (
    Column("id", lambda item: str(item.id), 9, 4, most=12),
    moment_column("received", lambda item: item.received_at),
    Column("type", lambda item: item.type, 24, 12, rank=3, most=24),
    Column("delivery_id", lambda item: item.key, 36, 8, rank=5, most=15, in_table=lambda item: short_id(item.key)),
    job_column(lambda item: item.job_id, rank=6),
    Column("handler", lambda item: item.handler, 32, 16, most=24, head=0),
    Column("state", lambda item: item.state.value, 7, 7),
    Column("attempts", lambda item: str(item.attempts), 8, 8, rank=2, right=True),
    moment_column("due", lambda item: item.due_at, rank=4),
    Column("why", lambda item: explanation(item) or NOTHING, 0, 54, rank=1, most=60, below=explanation),
)
_WORK_ITEMS = Listing("work item", _COLUMNS, work_summary, lambda item: _STYLES.get(item.state, ""))
_BELOW = " " * 7
"""What stands before the further lines of an attempt."""


@work_items.command()
@click.argument("work_id", metavar="ID", type=WORK_ID)
@json_option
@store_option
def show(work_id: int, as_json: bool, store: str | None) -> None:
    """Show everything that is known of a work item.

    This includes every attempt, and the traceback of each that failed.
    """
    detail = read(load_reading_settings(store=store), lambda reports: reports.work_item(work_id))
    if as_json:
        write_json(work_detail(detail))
        return
    for line in readable(detail, terminal_width()):
        write_line(line)


def readable(detail: WorkDetail, width: int | None = None) -> list[str]:
    """Return lines for people, safe for a terminal: the item, its attempts, and commands that help.

    With a width they are wrapped.
    """
    item = detail.summary
    fields = with_local_times(work_summary(item))
    if fields.pop("behind"):
        fields["note"] = explanation(item)
    lines = [line for name, value in fields.items() for line in wrapped(f"{name:<13}", shown(value), width)]
    lines += ["", "attempts"]
    for attempt in detail.attempts:
        lines += _attempt_lines(attempt, width)
    if item.state is WorkState.RUNNING:
        lines.append(f"  {item.attempts}  runs now")
    elif not detail.attempts:
        lines.append("  none yet")
    if advice := _advice(item):
        lines += ["", *wrapped("", advice, width)]
    return lines


def _attempt_lines(attempt: Attempt, width: int | None) -> list[str]:
    ran_for = run_time(attempt)
    started = "start unknown" if attempt.started_at is None else local_time(attempt.started_at, "milliseconds")
    ended = f"ended {local_time(attempt.ended_at, 'milliseconds')}"
    ended += "" if ran_for is None else f" after {duration(ran_for)}"
    overdue = ["overdue: it ran longer than its time-out"] if attempt.overdue else []
    cells = [attempt.trigger.value, started, ended, attempt.outcome.value, *overdue]
    lines = wrapped(f"{attempt.number:>3}  ", "  ".join(cells), width, below=_BELOW)
    if attempt.error:
        lines += wrapped(_BELOW, shown(attempt.error), width)
    bar = f"{_BELOW}| "
    for line in (attempt.traceback or "").splitlines():
        lines += wrapped(bar, escape_controls(shortened(line)), width, below=bar)
    return lines


def _advice(item: WorkSummary) -> str:
    if item.holds_lane:
        return (
            f"Its lane stands still until `receiver work-items retry {item.id}` or "
            f"`receiver work-items bury {item.id} --reason TEXT`."
        )
    if item.state in (WorkState.DEAD, WorkState.SKIPPED):
        return f"`receiver work-items retry {item.id}` runs it again."
    return ""


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

    async def choose(reports: Reports) -> ChosenWork:
        if work_ids:
            return await choose_named(reports, action, work_ids)
        return await choose_matching(reports, action, await with_whole_job_id(reports, wanted))

    chosen = read(settings, choose)
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
    choice = {} if wanted.limit is not None or work_ids else words  # the same filter continues it
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


@work_items.command()
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


def _reason(value: str) -> str:
    """Accept a text that is not blank."""
    if not value.strip():
        raise click.BadParameter("give a reason")
    return text(value.strip())


@work_items.command()
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
    queued in their lane, that are held, and dead ones that hold their lane, which then continues. The command shows
    a plan first.
    """
    settings = load_settings(store=store)

    async def change(controls: Controls, ids: Sequence[int], action: int) -> int:
        return await controls.bury(ids, reason, now=await now_of(configured_store(settings)), action=action)

    return act(BURY, change, settings, work_ids, wanted, yes=yes, dry_run=dry_run)


_NARROW = 20
"""A narrower column of meanings goes below its row."""


@work_items.command()
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Print a Mermaid diagram.")
def states(as_mermaid: bool) -> None:
    """Show every change of a work item's state, with its cause."""
    if as_mermaid:
        write_line(mermaid())
        return
    width = terminal_width()
    head = ("state", "cause", "next")
    moves = [((before or "-", cause, after), cause.meaning) for (before, cause), after in MOVES.items()]
    widths = [max(map(len, column)) for column in zip(head, *(cells for cells, _ in moves), strict=True)]
    write_line(_joined(head, widths) + "meaning")
    for cells, meaning in moves:
        row = _joined(cells, widths)
        is_narrow = width is not None and width < len(row) + _NARROW
        for line in wrapped(
            "" if is_narrow else row, row + meaning if is_narrow else meaning, width, below=is_narrow * "  "
        ):
            write_line(line)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return the cells of a row as columns with a gap after each of them."""
    return "".join(f"{cell:<{width}}" + " " * GAP for cell, width in zip(cells, widths, strict=True))
