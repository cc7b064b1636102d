"""`receiver drift`: types and fields that arrived and that this version does not know."""

from typing import Any

import click

from receiver.cli.common.filters import filter_options, store_option, with_whole_job_id
from receiver.cli.common.output import note, progress
from receiver.cli.common.store import read
from receiver.cli.common.tables import NOTHING, Column, ListForm, Listing, form_options, moment_column
from receiver.core.clock import iso
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, short_id
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.drift import DriftCount, DriftCounter, DriftKind
from receiver.settings import load_reading_settings

_STEP = 500
_KINDS = {DriftKind.TYPE: "unknown type", DriftKind.FIELD: "unknown field", DriftKind.FORM: "other form"}


@click.command()
@filter_options
@form_options(lambda: _COLUMNS)
@store_option
def drift(wanted: DeliveryFilter, form: ListForm, store: str | None) -> None:
    """Show event types and fields that this version does not know.

    The command reads the stored bodies with the models of this version. It lists unknown types, unknown fields, and
    known fields in another form, which handlers see as missing. Each is counted once per event; the last such event
    is named. Keys that anybody may choose do not count: meta tags of a page, metadata of a webhook.
    """
    counter = read(load_reading_settings(store=store), lambda reports: scan(reports, wanted))
    found = counter.counts()
    _DRIFT.write_all(found, form)
    if counter.others:
        note(f"{counted(counter.others, 'more case')} of other types or fields: there are too many to list")


async def scan(reports: Reports, wanted: DeliveryFilter) -> DriftCounter:
    """Read the wanted events in flat memory, and count their unknown types and fields."""
    wanted = await with_whole_job_id(reports, wanted)
    counter = DriftCounter()
    plan = await reports.plan(wanted)
    total = plan.count - plan.without_body
    seen = unreadable = 0
    with progress("read", total) as advance:
        async for stored in reports.iter_deliveries(wanted):
            try:
                counter.add(parse_event(stored.delivery.body), stored.delivery)
            except (Malformed, ValueError, RecursionError):
                unreadable += 1
            seen += 1
            if seen % _STEP == 0:
                advance(_STEP)
    found = "" if counter.counts() else "; no drift"
    pruned = (
        f"; {plan.without_body:,} more are without their bodies, which were pruned" if plan.without_body else ""
    )
    failed = f"; {unreadable:,} could not be read" if unreadable else ""
    note(f"{counted(seen, 'event')} read{pruned}{failed}{found}")
    return counter


def fields(one: DriftCount) -> dict[str, Any]:
    """Return one row as JSON has it; `delivery_id` is that of the last event that had it."""
    return {
        "type": one.drift.type,
        "kind": one.drift.kind.value,
        "path": one.drift.path or None,
        "count": one.count,
        "first_at": iso(one.first_at),
        "last_at": iso(one.last_at),
        "delivery_id": one.key,
    }


_COLUMNS: tuple[Column[DriftCount], ...] = (
    Column("kind", lambda one: _KINDS[one.drift.kind], 13, 13),
    Column("type", lambda one: one.drift.type, 24, 12, most=24),
    Column("path", lambda one: one.drift.path or NOTHING, 40, 20, most=60, head=0),
    Column("count", lambda one: str(one.count), 8, 5, most=9, right=True),
    moment_column("first", lambda one: one.first_at, rank=2),
    moment_column("last", lambda one: one.last_at, rank=1),
    Column("delivery_id", lambda one: one.key, 0, 8, most=15, rank=3, in_table=lambda one: short_id(one.key)),
)
_DRIFT = Listing("drift", _COLUMNS, fields, lambda one: "yellow" if one.drift.kind is DriftKind.FORM else "")
