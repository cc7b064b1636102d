"""`receiver handlers list`: one line for each handler."""

from collections.abc import Callable, Mapping
from datetime import timedelta

import click

from receiver.cli.common.filter_options import json_option
from receiver.cli.common.output import duration, flush, note, shown, write_json
from receiver.cli.common.tables import Column, Listing
from receiver.cli.handlers.rows import HandlerRow, all_rows, deployment_options, left_waiting
from receiver.core.types import HandlerSwitch, WorkState
from receiver.core.views import handler_row
from receiver.settings import load_settings

_STYLES = {HandlerSwitch.PAUSED: "yellow", HandlerSwitch.DISABLED: "dim"}
_REGISTERED: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}


@click.command("list")
@json_option
@deployment_options
def list_(as_json: bool, **flags: str | None) -> None:
    """List the handlers of the code, and others in the store."""
    rows = all_rows(load_settings(**flags))
    if as_json:
        for row in rows:
            write_json(_HANDLERS.fields(row))
        return
    _HANDLERS.write_rows(rows)
    flush()
    for row in rows:
        if row.registered is False and row.waiting:
            note(left_waiting(row.name, row.waiting))
    if not rows:
        note("no handler is in the code or in the store")


def _latency(latency: timedelta | None) -> str:
    return "-" if latency is None else duration(latency)


def _count(state: WorkState) -> Callable[[HandlerRow], str]:
    return lambda row: str(row.report.counts.get(state, 0))


_COLUMNS: tuple[Column[HandlerRow], ...] = (
    Column("handler", lambda row: row.name, 40, 22, most=36, keeps_end=True),
    Column("status", lambda row: row.report.switch.value, 8, 8),
    Column("registered", lambda row: _REGISTERED[row.registered], 10, 10),
    Column("waiting", lambda row: str(row.waiting), 8, 7, most=9, right=True),
    Column("running", _count(WorkState.RUNNING), 7, 7, rank=3, right=True),
    Column("done", _count(WorkState.DONE), 9, 7, most=9, right=True),
    Column("dead", _count(WorkState.DEAD), 8, 6, most=8, right=True),
    Column("skipped", _count(WorkState.SKIPPED), 8, 7, rank=2, right=True),
    Column("median", lambda row: _latency(row.report.latency), 10, 8, most=10, right=True),
    Column(
        "last error",
        lambda row: shown(row.report.last_error),
        0,
        20,
        most=200,
        rank=1,
        in_table=lambda row: row.report.last_error or "",
    ),
)
_HANDLERS = Listing(
    "handler",
    _COLUMNS,
    lambda row: handler_row(row.report, registered=row.registered),
    lambda row: _STYLES.get(row.report.switch, ""),
)
