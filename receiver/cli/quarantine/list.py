"""`receiver quarantine list`: one line for each request in quarantine."""

from typing import Any

import click

from receiver.cli.common.filter_options import json_option, limit_option, span_options, store_option, text
from receiver.cli.common.store import read
from receiver.cli.common.tables import Column, Listing, moment_column
from receiver.core.quarantine import QuarantinedSummary, QuarantineFilter
from receiver.core.views import quarantined_summary
from receiver.settings import load_settings


@click.command("list")
@click.option("--reason", type=text, metavar="WORD", help="Only malformed, or only conflict.")
@span_options
@limit_option
@json_option
@store_option
def list_(as_json: bool, store: str | None, **wanted: Any) -> None:
    """List requests in quarantine, the newest first."""
    chosen = QuarantineFilter(**wanted)
    read(
        load_settings(store=store),
        lambda reports: _REQUESTS.write(reports.quarantined_requests, chosen, as_json=as_json),
    )


_COLUMNS: tuple[Column[QuarantinedSummary], ...] = (
    Column("id", lambda row: str(row.id), 7, 7),
    moment_column("received", lambda row: row.received_at),
    Column("reason", lambda row: row.reason, 10, 10),
    Column("size", lambda row: str(row.size), 9, 9, right=True),
    Column("delivery_id", lambda row: row.key or "-", 36, 15, most=36, rank=1),
    Column("detail", lambda row: row.detail, 0, 30, most=60),
)
_REQUESTS = Listing("request in quarantine", _COLUMNS, quarantined_summary, lambda _: "")
