"""`receiver work-items show`: everything that is known of one work item."""

import click

from receiver.cli.common.columns import wrapped
from receiver.cli.common.filter_options import json_option, store_option
from receiver.cli.common.output import duration, shown, terminal_width, with_local_times, write_json, write_line
from receiver.cli.common.row_ids import WORK_ID
from receiver.cli.common.store import read
from receiver.core.clock import local_time
from receiver.core.text import escape_controls, shortened
from receiver.core.types import WorkState
from receiver.core.views import explanation, run_time, work_detail, work_summary
from receiver.core.work import Attempt, WorkDetail, WorkSummary
from receiver.settings import load_reading_settings

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
