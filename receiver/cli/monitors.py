"""`receiver monitors`: what the service watches for this account."""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.filter_options import json_option, limit_option, text
from receiver.cli.common.output import clock, iso, note, quoted, write_bytes, write_line
from receiver.cli.common.service_calls import as_it_came, ask
from receiver.cli.common.tables import SHOWN_TO_PEOPLE, Column, Listing
from receiver.core.text import escape_controls
from receiver.service.samples import encode
from receiver.settings import load_settings

if TYPE_CHECKING:  # the models take long to load, and the client loads httpx
    from receiver.service.client import AsyncClient
    from receiver.service.responses import Monitor

MAX_ITEMS = 100


@click.group()
def monitors() -> None:
    """Look at the monitors of your account, and run one now. Needs RECEIVER_API_KEY."""


@monitors.command("list")
@limit_option
@json_option
def list_(limit: int | None, as_json: bool) -> None:
    """List monitors, the newest first."""
    settings = load_settings()
    most = limit or (None if as_json else SHOWN_TO_PEOPLE + 1)
    found = ask(settings, lambda client: _monitors(client, most))
    if as_json:
        for one in found:
            write_bytes(encode(_fields(one)) + b"\n")
        return
    shown = found[: limit or SHOWN_TO_PEOPLE]
    if shown:
        _LISTING.write_rows(shown)
    else:
        note("there is no monitor")
    if len(found) > len(shown):
        note(f"the newest {len(shown)} of more; --limit N shows N, --json shows all")


@monitors.command()
@click.argument("monitor_id", metavar="ID", type=text)
@json_option
def show(monitor_id: str, as_json: bool) -> None:
    """Show all that the service tells of a monitor."""
    settings = load_settings()
    settings.plain_api_key()
    from receiver.service.client import monitors as calls

    call = as_it_came(calls.monitor(monitor_id))
    found = ask(settings, lambda client: client.send(call))
    if as_json:
        write_bytes(encode(found) + b"\n")
        return
    width = max((len(name) for name in found), default=0) + 1
    for name, value in found.items():
        written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        write_line(escape_controls(f"{name:<{width}} {written}"))


@monitors.command()
@click.argument("monitor_id", metavar="ID", type=text)
@json_option
def run(monitor_id: str, as_json: bool) -> None:
    """Run a monitor now. The id of its check is written to standard output; it has only been queued."""
    check = ask(load_settings(), lambda client: client.run_monitor(monitor_id))
    check_id = check.id or ""
    if as_json:
        write_bytes(encode({"id": check_id, "monitor_id": monitor_id, "status": check.status}) + b"\n")
    else:
        write_line(escape_controls(check_id))
    note(f"next: receiver jobs show {quoted(check_id)}")


async def _monitors(client: "AsyncClient", most: int | None) -> list["Monitor"]:
    found: list[Monitor] = []
    while most is None or len(found) < most:
        limit = MAX_ITEMS if most is None else min(MAX_ITEMS, most - len(found))
        some = await client.monitors(limit=limit, offset=len(found))
        found += some
        if len(some) < limit:
            break
    return found


def _fields(one: "Monitor") -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "status": one.status,
        "schedule": one.schedule and one.schedule.cron,
        "last_run_at": one.last_run_at and iso(one.last_run_at),
        "next_run_at": one.next_run_at and iso(one.next_run_at),
        "current_check": one.current_check_id,
    }


def _when(moment: datetime | None) -> str:
    return "-" if moment is None else clock(moment)


_LISTING: "Listing[Monitor]" = Listing(
    "monitor",
    (
        Column("monitor", lambda one: one.id or "-", 36, 36),
        Column("status", lambda one: one.status or "-", 8, 8),
        Column("next (UTC)", lambda one: _when(one.next_run_at), 14, 14),
        Column("last (UTC)", lambda one: _when(one.last_run_at), 14, 14, rank=2),
        Column("name", lambda one: one.name or "-", 0, 12, most=40),
    ),
    _fields,
    lambda one: "" if one.status == "active" else "yellow",
)
