"""`receiver work-items list`: one line for each work item."""

import click

from receiver.cli.common.filter_options import json_option, store_option, work_filter_options
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.output import shown
from receiver.cli.common.store import read
from receiver.cli.common.tables import Column, Listing, moment_column
from receiver.core.ports.reports import Reports
from receiver.core.text import short_id
from receiver.core.types import WorkState
from receiver.core.views import explanation, work_summary
from receiver.core.work import WorkFilter, WorkSummary
from receiver.settings import load_settings

_STYLES = {
    WorkState.WAITING: "yellow",
    WorkState.QUEUED: "yellow",
    WorkState.HELD: "yellow",
    WorkState.RUNNING: "cyan",
    WorkState.DEAD: "red",
    WorkState.SKIPPED: "dim",
}


@click.command("list")
@work_filter_options()
@json_option
@store_option
def list_(wanted: WorkFilter, as_json: bool, store: str | None) -> None:
    """List work items, the newest first."""

    async def report(reports: Reports) -> None:
        await _WORK_ITEMS.write(reports.work_items, await with_whole_job_id(reports, wanted), as_json=as_json)

    read(load_settings(store=store), report)


_COLUMNS: tuple[Column[WorkSummary], ...] = (
    Column("id", lambda item: str(item.id), 9, 9),
    moment_column("received", lambda item: item.received_at),
    Column("type", lambda item: item.type, 24, 20),
    Column("delivery_id", lambda item: item.key, 36, 15, rank=5, in_table=lambda item: short_id(item.key)),
    Column("job_id", lambda item: item.job_id or "-", 36, 8, most=36, rank=4),
    Column("handler", lambda item: item.handler, 32, 22, most=30, keeps_end=True),
    Column("state", lambda item: item.state.value, 7, 7),
    Column("attempts", lambda item: str(item.attempts), 8, 8, rank=1, right=True),
    moment_column("due", lambda item: item.due_at, rank=3),
    Column(
        "last error, or note",
        lambda item: shown(explanation(item)),
        0,
        24,
        rank=2,
        most=60,
        in_table=lambda item: explanation(item) or "",
    ),
)
_WORK_ITEMS = Listing("work item", _COLUMNS, work_summary, lambda item: _STYLES.get(item.state, ""))
