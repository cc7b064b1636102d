"""`receiver actions`: what people did to the store."""

import asyncio

import click

from receiver.cli.common.filters import list_limit_option, store_option
from receiver.cli.common.output import note
from receiver.cli.common.store import clock_of, configured_store, open_reports
from receiver.cli.common.tables import (
    MAX_ROWS,
    NOTHING,
    Column,
    ListForm,
    Listing,
    RowWriter,
    form_options,
    moment_column,
)
from receiver.core.recorded_actions import RecordedAction
from receiver.core.views import action_row
from receiver.settings import Settings, load_reading_settings


@click.command()
@list_limit_option
@form_options(lambda: _COLUMNS)
@store_option
def actions(limit: int | None, form: ListForm, store: str | None) -> None:
    """List what people did to the store, the newest first.

    Commands and the console record every retry, burial, replay, import, deletion and change of a switch: who, when,
    and to how many. A record is kept for 90 days. `receiver work-items list --action ID` lists the items that an
    action decided about last. `receiver work-items retry --action ID --state dead` undoes a burial.
    """
    asyncio.run(_list(load_reading_settings(store=store), form, form.most(limit)))


async def _list(settings: Settings, form: ListForm, most: int | None) -> None:
    writer = RowWriter(_ACTIONS, form)
    shown, before = 0, None
    async with open_reports(settings) as reports, clock_of(configured_store(settings)) as clock:
        while most is None or shown < most:
            size = MAX_ROWS if most is None else min(MAX_ROWS, most - shown)
            rows = await reports.actions(limit=size, before=before)
            writer.write([one.as_seen(clock.now()) for one in rows])
            shown += len(rows)
            if len(rows) < size:
                break
            before = rows[-1].id
    writer.end()
    if not shown and not form.as_json:
        note("nothing was done yet")


_COLUMNS: tuple[Column[RecordedAction], ...] = (
    Column("id", lambda row: str(row.id), 7, 3, most=12),
    moment_column("when", lambda row: row.began_at),
    Column("action", lambda row: row.what.verb, 10, 9, most=12),
    Column("changed", lambda row: str(row.changed), 9, 7, most=10, right=True),
    Column(
        "end",
        lambda row: "stopped" if row.error is not None else f"{row.percent} %" if row.ended_at is None else "done",
        8,
        7,
        rank=1,
    ),
    Column("by", lambda row: row.what.actor, 24, 12, most=30),
    Column("about", lambda row: row.what.about, 0, 16, most=60),
    Column("error", lambda row: row.error or NOTHING, 0, 16, most=40, rank=2, below=lambda row: row.error),
)
_ACTIONS = Listing("action", _COLUMNS, action_row, lambda row: "red" if row.error is not None else "")
