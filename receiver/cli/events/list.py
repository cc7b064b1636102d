"""`receiver events list`: the stored events, one per line."""

import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import click

from receiver.cli.common.filter_options import event_list_options, store_option, text_option
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.names import hint
from receiver.cli.common.output import note
from receiver.cli.common.store import read
from receiver.cli.common.tables import ListForm, form_options
from receiver.cli.events.table import EVENTS
from receiver.core.clock import local_time
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.text import counted
from receiver.core.types import DeliveryState
from receiver.core.views import EventRow, event_rows
from receiver.settings import load_reading_settings

_NOT_ROUTED = "new: not routed yet, no worker has looked for its handlers since it came"


@click.command("list")
@event_list_options
@text_option
@form_options(lambda: EVENTS.columns)
@store_option
def list_(wanted: DeliveryFilter, words: str | None, form: ListForm, store: str | None) -> None:
    """List events, the newest first.

    --text finds events whose URLs, titles or errors have all of these words. "Quotes" make a phrase, and so does a
    URL. word* finds every word that begins so. --text needs RECEIVER_SEARCH=true at the worker.
    """

    async def report(reports: Reports) -> None:
        chosen = await with_whole_job_id(reports, replace(wanted, text=words))
        has_new = False

        async def rows(wanted: DeliveryFilter) -> AsyncIterator[EventRow]:
            nonlocal has_new
            async for row in event_rows(reports, wanted):
                has_new = has_new or row.summary.state is DeliveryState.NEW
                yield row

        await EVENTS.write(rows, chosen, form, lambda wanted: hint(reports, wanted))
        if has_new and not form.as_json and sys.stdout.isatty():
            note(_NOT_ROUTED)
        if words is not None:
            await _note_unindexed(reports)

    read(load_reading_settings(store=store), report)


async def _note_unindexed(reports: Reports) -> None:
    """Say on standard error how many events the search index does not have yet."""
    reach = await reports.search_reach()
    if reach is not None and reach.behind:
        through = "is empty" if reach.through is None else f"ends at {local_time(reach.through)}"
        note(f"the search index {through}: it lacks {counted(reach.behind, 'event')}")
