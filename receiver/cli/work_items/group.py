"""`receiver work-items`: look at what handlers have done and have to do, run it again, or give it up."""

from datetime import timedelta
from typing import Any

import click

from receiver.cli.common.filter_options import json_option, store_option, work_filter_options
from receiver.cli.common.output import clock, duration, iso, shown, write_bytes, write_line
from receiver.cli.common.store import read
from receiver.cli.common.tables import Column, Listing
from receiver.cli.work_items.actions import WORK_ID, bury, retry
from receiver.cli.work_items.states import states
from receiver.core.text import escape_controls, short_id, shortened
from receiver.core.types import WorkState
from receiver.core.work import Attempt, WorkDetail, WorkFilter, WorkSummary
from receiver.service.samples import encode
from receiver.settings import load_settings

_STYLES = {
    WorkState.WAITING: "yellow",
    WorkState.QUEUED: "yellow",
    WorkState.HELD: "yellow",
    WorkState.RUNNING: "cyan",
    WorkState.DEAD: "red",
    WorkState.SKIPPED: "dim",
}


@click.group("work-items")
def work_items() -> None:
    """Look at work items, run them again, or give them up. There is one for each delivery and handler."""


work_items.add_command(retry)
work_items.add_command(bury)
work_items.add_command(states)


@work_items.command("list")
@work_filter_options()
@json_option
@store_option
def list_(wanted: WorkFilter, as_json: bool, store: str | None) -> None:
    """List work items, the newest first."""
    settings = load_settings(store=store)
    if as_json:
        read(settings, lambda reports: _LISTING.write_json(reports.work_items(wanted)))
    else:
        read(settings, lambda reports: _LISTING.write(reports.work_items, wanted))


@work_items.command()
@click.argument("work_id", metavar="ID", type=WORK_ID)
@json_option
@store_option
def show(work_id: int, as_json: bool, store: str | None) -> None:
    """Show all that is known of one work item, with every attempt."""
    detail = read(load_settings(store=store), lambda reports: reports.work_item(work_id))
    if as_json:
        write_bytes(encode(detail_fields(detail)) + b"\n")
        return
    for line in readable(detail):
        write_line(line)


def summary_fields(item: WorkSummary) -> dict[str, Any]:
    """Return a work item as the listing's JSON has it."""
    of_delivery = {
        "id": item.id,
        "delivery": item.key,
        "type": item.type,
        "job_id": item.job_id,
        "received_at": iso(item.received_at),
    }
    return of_delivery | progress_fields(item)


def progress_fields(item: WorkSummary) -> dict[str, Any]:
    """Return what a work item's JSON has beside its delivery."""
    return {
        "id": item.id,
        "handler": item.handler,
        "state": item.state.value,
        "attempts": item.attempts,
        "lane": item.lane,
        "due_at": None if item.due_at is None else iso(item.due_at),
        "last_error": item.last_error,
        "note": item.note,
    }


def told(item: WorkSummary) -> str | None:
    """Return what explains its state best: what it waits for, or its last error."""
    return item.note if item.state is WorkState.HELD else item.last_error


def detail_fields(detail: WorkDetail) -> dict[str, Any]:
    """Return a work item as the JSON of `work-items show` has it; `history` has the attempts that have ended."""
    return summary_fields(detail.summary) | {
        "holds_lane": detail.summary.holds_lane,
        "history": [_attempt_fields(attempt) for attempt in detail.attempts],
    }


def readable(detail: WorkDetail) -> list[str]:
    """Return lines for people, harmless to a terminal: the item, its attempts, and what can be done."""
    item = detail.summary
    lines = [f"{name:<13}{shown(value)}" for name, value in summary_fields(item).items()]
    lines += ["", "attempts"]
    for attempt in detail.attempts:
        lines += _attempt_lines(attempt)
    if item.state is WorkState.RUNNING:
        lines.append(f"  {item.attempts}  runs now")
    elif not detail.attempts:
        lines.append("  none yet")
    if advice := _advice(item):
        lines += ["", advice]
    return lines


def _attempt_fields(attempt: Attempt) -> dict[str, Any]:
    took = _took(attempt)
    return {
        "number": attempt.number,
        "trigger": attempt.trigger.value,
        "started_at": None if attempt.started_at is None else iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "duration_seconds": None if took is None else took.total_seconds(),
        "outcome": attempt.outcome.value,
        "error": attempt.error,
        "overdue": attempt.overdue,
        "traceback": attempt.traceback,
    }


def _attempt_lines(attempt: Attempt) -> list[str]:
    took = _took(attempt)
    began = "began nobody knows when" if attempt.started_at is None else iso(attempt.started_at, "milliseconds")
    ended = f"ended {iso(attempt.ended_at, 'milliseconds')}" + ("" if took is None else f" after {duration(took)}")
    overdue = ["overdue: it ran longer than its time-out"] if attempt.overdue else []
    line = "  ".join([f"{attempt.number:>3}", attempt.trigger.value, began, ended, attempt.outcome.value, *overdue])
    lines = [line] + ([f"       {shown(attempt.error)}"] if attempt.error else [])
    return lines + [f"       | {escape_controls(shortened(one))}" for one in (attempt.traceback or "").splitlines()]


def _took(attempt: Attempt) -> timedelta | None:
    return None if attempt.started_at is None else max(timedelta(0), attempt.ended_at - attempt.started_at)


def _advice(item: WorkSummary) -> str:
    if item.holds_lane:
        return (
            f"Its lane stands still until `receiver work-items retry {item.id}` or "
            f"`receiver work-items bury {item.id} --reason TEXT`."
        )
    if item.state in (WorkState.DEAD, WorkState.SKIPPED):
        return f"`receiver work-items retry {item.id}` runs it again."
    return ""


_COLUMNS: tuple[Column[WorkSummary], ...] = (
    Column("id", lambda item: str(item.id), 9, 9),
    Column(
        "received (UTC)",
        lambda item: iso(item.received_at, "seconds"),
        20,
        14,
        in_table=lambda item: clock(item.received_at),
    ),
    Column("type", lambda item: item.type, 24, 20),
    Column("delivery", lambda item: item.key, 36, 15, rank=5, in_table=lambda item: short_id(item.key)),
    Column("job", lambda item: item.job_id or "-", 36, 8, most=36, rank=4),
    Column("handler", lambda item: item.handler, 32, 22, most=30, keeps_end=True),
    Column("state", lambda item: item.state.value, 7, 7),
    Column("att.", lambda item: str(item.attempts), 4, 4, rank=1, right=True),
    Column(
        "due (UTC)",
        lambda item: "-" if item.due_at is None else iso(item.due_at, "seconds"),
        20,
        14,
        rank=3,
        in_table=lambda item: "" if item.due_at is None else clock(item.due_at),
    ),
    Column(
        "last error, or note",
        lambda item: shown(told(item)),
        0,
        24,
        rank=2,
        most=60,
        in_table=lambda item: told(item) or "",
    ),
)
_LISTING = Listing("work item", _COLUMNS, summary_fields, lambda item: _STYLES.get(item.state, ""))
