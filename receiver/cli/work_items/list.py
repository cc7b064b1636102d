"""`receiver work-items list`: one line for each work item."""

import textwrap
from collections.abc import Sequence

import click

from receiver.cli.common.filters import WORK_ID, json_option, store_option, with_whole_job_id, work_list_options
from receiver.cli.common.lazy_group import LazyGroup
from receiver.cli.common.names import hint
from receiver.cli.common.output import duration, shown, terminal_width, with_local_times, write_json, write_line
from receiver.cli.common.store import read
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
from receiver.core.clock import local_time
from receiver.core.ports.reports import Reports
from receiver.core.text import escape_controls, short_id, shortened
from receiver.core.types import WorkState
from receiver.core.views import explanation, run_time, work_detail, work_summary
from receiver.core.work import Attempt, WorkDetail, WorkFilter, WorkSummary
from receiver.core.work_states import MOVES, mermaid
from receiver.settings import load_reading_settings

_STYLES = {
    WorkState.WAITING: "yellow",
    WorkState.QUEUED: "yellow",
    WorkState.HELD: "yellow",
    WorkState.RUNNING: "cyan",
    WorkState.DEAD: "red",
    WorkState.SKIPPED: "dim",
}


@click.command("list")
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


def _why(item: WorkSummary) -> str:
    return explanation(item) or NOTHING


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
    Column("why", _why, 0, 54, rank=1, most=60, below=explanation),
)
_WORK_ITEMS = Listing("work item", _COLUMNS, work_summary, lambda item: _STYLES.get(item.state, ""))


# FOLDED: `receiver work-items show`: everything that is known of one work item.
_BELOW = " " * 7
"""What stands before the further lines of an attempt."""


@click.command()
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


# FOLDED: `receiver work-items states`: how a work item changes its state.
_NARROW = 20
"""A narrower column of meanings goes below its row."""


@click.command()
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
        for line in _lines(_joined(cells, widths), meaning, width):
            write_line(line)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return the cells of a row as columns with a gap after each of them."""
    return "".join(f"{cell:<{width}}" + " " * GAP for cell, width in zip(cells, widths, strict=True))


def _lines(row: str, meaning: str, width: int | None) -> list[str]:
    """Return a row with its meaning, on lines of this width; None is a pipe, which has one line for each row."""
    if width is None:
        return [row + meaning]
    if width < len(row) + _NARROW:
        below = textwrap.wrap(meaning, width, initial_indent="  ", subsequent_indent="  ")
        return [*textwrap.wrap(row.rstrip(), width, subsequent_indent="  "), *below]
    return textwrap.wrap(meaning, width, initial_indent=row, subsequent_indent=" " * len(row))


# FOLDED: `receiver work-items`: the group of its subcommands.
_SUBCOMMANDS = {
    "list": "receiver.cli.work_items.list:list_",
    "show": "receiver.cli.work_items.list:show",
    "retry": "receiver.cli.work_items.act:retry",
    "bury": "receiver.cli.work_items.act:bury",
    "states": "receiver.cli.work_items.list:states",
}


@click.group("work-items", cls=LazyGroup, subcommands=_SUBCOMMANDS)
def work_items() -> None:
    """Look at work items, run them again, or discard them.

    There is one work item for each delivery and handler.
    """
