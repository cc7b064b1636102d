"""`receiver handlers list`: one line for each handler."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import click

from receiver.cli.common.columns import NOTHING, Column
from receiver.cli.common.output import duration, note
from receiver.cli.common.tables import ListForm, Listing, RowWriter, form_options
from receiver.cli.handlers.rows import HandlerRow, all_rows, deployment_options, left_waiting
from receiver.core.clock import local_time
from receiver.core.types import HandlerSwitch, WorkState
from receiver.core.views import handler_row
from receiver.settings import load_reading_settings

_NEXT_RUN = "next_run"
_STYLES = {HandlerSwitch.PAUSED: "yellow", HandlerSwitch.DISABLED: "dim"}
_REGISTERED: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}


@click.command("list")
@form_options(lambda: _COLUMNS)
@deployment_options
def list_(form: ListForm, **flags: str | None) -> None:
    """List the handlers of the code, and others in the store."""
    rows = all_rows(load_reading_settings(**flags))
    listing = _HANDLERS
    if not form.columns and not any(row.report.schedule for row in rows):  # most have none, and it is a wide column
        listing = replace(listing, columns=[one for one in _COLUMNS if one.title != _NEXT_RUN])
    writer = RowWriter(listing, form)
    writer.write(rows)
    writer.end()
    if form.as_json:
        return
    for row in rows:
        if row.registered is False and row.waiting:
            note(left_waiting(row.name, row.waiting))
    if not rows:
        note("no handler is in the code or in the store")


def _latency(latency: timedelta | None) -> str:
    return NOTHING if latency is None else duration(latency)


def _count(state: WorkState) -> Callable[[HandlerRow], str]:
    return lambda row: str(row.report.counts.get(state, 0))


def _next_run(row: HandlerRow) -> str | None:
    """Return the next run and the schedule in one line; None without a schedule."""
    report = row.report
    return None if report.next_run is None else f"{local_time(report.next_run)}, {report.schedule}"


_COLUMNS: tuple[Column[HandlerRow], ...] = (
    Column("handler", lambda row: row.name, 40, 16, most=32, head=0),
    Column("status", lambda row: row.report.switch.value, 8, 6, most=8),
    Column("registered", lambda row: _REGISTERED[row.registered], 10, 10),
    Column("waiting", lambda row: str(row.waiting), 8, 7, most=9, right=True),
    Column("running", _count(WorkState.RUNNING), 7, 7, rank=3, right=True),
    Column("done", _count(WorkState.DONE), 9, 4, most=9, right=True),
    Column("dead", _count(WorkState.DEAD), 8, 4, most=8, right=True),
    Column("skipped", _count(WorkState.SKIPPED), 8, 7, rank=4, right=True),
    Column("median", lambda row: _latency(row.report.latency), 10, 6, most=12, rank=2, right=True),
    Column(
        _NEXT_RUN,
        lambda row: _next_run(row) or NOTHING,
        56,
        56,
        most=70,
        rank=5,
        below=lambda row: (found := _next_run(row)) and f"next run {found}",
    ),
    Column(
        "last_error",
        lambda row: row.report.last_error or NOTHING,
        0,
        24,
        most=60,
        rank=1,
        below=lambda row: row.report.last_error,
    ),
)
_HANDLERS = Listing(
    "handler",
    _COLUMNS,
    lambda row: handler_row(row.report, registered=row.registered),
    lambda row: _STYLES.get(row.report.switch, ""),
)
