"""`receiver quarantine list`: one line for each request in quarantine."""

from typing import Any

import click

from receiver.cli.common.columns import NOTHING, Column, moment_column
from receiver.cli.common.filter_options import list_limit_option, span_options, store_option
from receiver.cli.common.store import read
from receiver.cli.common.tables import ListForm, Listing, form_options
from receiver.core.quarantine import KINDS, QuarantinedSummary, QuarantineFilter
from receiver.core.text import short_id
from receiver.core.views import quarantined_summary
from receiver.settings import load_reading_settings


@click.command("list")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@click.option("--reason", type=click.Choice(KINDS), hidden=True)  # the older name of --kind
@span_options
@list_limit_option
@form_options(lambda: _COLUMNS)
@store_option
def list_(form: ListForm, store: str | None, kind: str | None, reason: str | None, **wanted: Any) -> None:
    """List requests in quarantine, the newest first."""
    chosen = QuarantineFilter(reason=kind or reason, **wanted)
    read(
        load_reading_settings(store=store),
        lambda reports: _REQUESTS.write(reports.quarantined_requests, chosen, form),
    )


def _short_key(row: QuarantinedSummary) -> str:
    return NOTHING if row.key is None else short_id(row.key)


_COLUMNS: tuple[Column[QuarantinedSummary], ...] = (
    Column("id", lambda row: str(row.id), 7, 3, most=12),
    moment_column("received", lambda row: row.received_at),
    Column("kind", lambda row: row.reason, 10, 10),
    Column("size", lambda row: str(row.size), 9, 9, right=True),
    Column("delivery_id", lambda row: row.key or NOTHING, 36, 8, most=15, rank=1, in_table=_short_key),
    Column("detail", lambda row: row.detail, 0, 16, most=60),
)
_REQUESTS = Listing("request in quarantine", _COLUMNS, quarantined_summary, lambda _: "")
