"""`receiver drift`: what has arrived and our models do not know."""

from typing import Any

import click

from receiver.cli.common.filter_options import filter_options, json_option, store_option
from receiver.cli.common.output import clock, iso, note, write_bytes
from receiver.cli.common.progress import progress
from receiver.cli.common.store import read
from receiver.cli.common.tables import Column, Listing
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import DeliveryReader
from receiver.core.text import counted, short_id
from receiver.errors import Malformed
from receiver.events import parse_event
from receiver.events.drift import DriftCount, DriftCounter, DriftKind
from receiver.service.samples import encode
from receiver.settings import load_settings

_STEP = 500
_WORDS = {DriftKind.TYPE: "unknown type", DriftKind.FIELD: "unknown field", DriftKind.FORM: "other form"}


@click.command()
@filter_options
@json_option
@store_option
def drift(wanted: DeliveryFilter, as_json: bool, store: str | None) -> None:
    """Show what has arrived and this version does not know.

    Reads the stored bodies with today's models: types and fields that they do not know, and known fields that came
    in another form and so read as missing. Each is counted once per delivery, with the one that had it last. What
    names its keys freely, as the meta tags of a page and the metadata of a webhook, is none.
    """
    tally = read(load_settings(store=store), lambda reports: scan(reports, wanted))
    if as_json:
        for one in tally.counts():
            write_bytes(encode(fields(one)) + b"\n")
    elif tally.counts():
        _LISTING.write_rows(tally.counts())
    if tally.others:
        note(f"{counted(tally.others, 'sight')} of still other fields or types were not told apart")


async def scan(reports: DeliveryReader, wanted: DeliveryFilter) -> DriftCounter:
    """Read the wanted deliveries, in flat memory, and count what is unknown of them."""
    tally = DriftCounter()
    plan = await reports.plan(wanted)
    total = plan.count - plan.without_body
    seen = unreadable = 0
    with progress("read", total) as advance:
        async for stored in reports.iter_deliveries(wanted):
            try:
                tally.add(parse_event(stored.delivery.body), stored.delivery)
            except (Malformed, ValueError, RecursionError):
                unreadable += 1
            seen += 1
            if seen % _STEP == 0:
                advance(_STEP)
    found = "" if tally.counts() else "; no drift"
    pruned = f"; {plan.without_body:,} have no body any more" if plan.without_body else ""
    failed = f"; {unreadable:,} could not be read" if unreadable else ""
    note(f"{counted(seen, 'delivery')} read{pruned}{failed}{found}")
    return tally


def fields(one: DriftCount) -> dict[str, Any]:
    """Return what was seen as the JSON has it."""
    return {
        "type": one.drift.type,
        "kind": one.drift.kind.value,
        "path": one.drift.path or None,
        "count": one.count,
        "first_at": iso(one.first_at),
        "last_at": iso(one.last_at),
        "example": one.key,
    }


_COLUMNS: tuple[Column[DriftCount], ...] = (
    Column("what", lambda one: _WORDS[one.drift.kind], 13, 13),
    Column("type", lambda one: one.drift.type, 24, 23),
    Column("where", lambda one: one.drift.path or "-", 40, 20, most=60, keeps_end=True),
    Column("count", lambda one: str(one.count), 8, 7, right=True),
    Column("first (UTC)", lambda one: iso(one.first_at, "seconds"), 20, 14, 0, 2, lambda one: clock(one.first_at)),
    Column("last (UTC)", lambda one: iso(one.last_at, "seconds"), 20, 14, 0, 1, lambda one: clock(one.last_at)),
    Column("example", lambda one: one.key, 0, 15, rank=3, in_table=lambda one: short_id(one.key)),
)
_LISTING = Listing("drift", _COLUMNS, fields, lambda one: "yellow" if one.drift.kind is DriftKind.FORM else "")
