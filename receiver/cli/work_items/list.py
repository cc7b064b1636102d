"""`receiver work-items list`: one line for each work item."""

import click

from receiver.cli.common.columns import NOTHING, Column, job_column, moment_column
from receiver.cli.common.filter_options import store_option, work_list_options
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.names import hint
from receiver.cli.common.store import read
from receiver.cli.common.tables import ListForm, Listing, form_options
from receiver.core.ports.reports import Reports
from receiver.core.text import short_id
from receiver.core.types import WorkState
from receiver.core.views import explanation, work_summary
from receiver.core.work import WorkFilter, WorkSummary
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
