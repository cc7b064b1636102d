"""`receiver monitors list`: one line for each monitor."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.columns import NOTHING, Column, moment_column
from receiver.cli.common.filter_options import list_limit_option
from receiver.cli.common.output import note
from receiver.cli.common.service_calls import ask
from receiver.cli.common.tables import ListForm, Listing, RowWriter, form_options, only_newest
from receiver.core.clock import iso
from receiver.errors import UnexpectedAnswer
from receiver.settings import load_settings

if TYPE_CHECKING:  # the models take long to load, and the client loads httpx
    from receiver.service.client import AsyncClient
    from receiver.service.responses import Monitor

SCAN_LIMIT = 100


@click.command("list")
@list_limit_option
@form_options(lambda: _MONITORS.columns)
def list_(limit: int | None, form: ListForm) -> None:
    """List monitors, the newest first."""
    most = form.most(limit)
    writer = RowWriter(_MONITORS, form)
    found = ask(load_settings(), lambda client: _read(client, most if limit or most is None else most + 1))
    shown = found[:most]
    writer.write(shown)
    writer.end()
    if not found and not form.as_json:
        note("the account has no monitor")
    if len(found) > len(shown):
        note(only_newest(len(shown)))


async def _read(client: "AsyncClient", most: int | None) -> list["Monitor"]:
    found: list[Monitor] = []
    while most is None or len(found) < most:
        limit = SCAN_LIMIT if most is None else min(SCAN_LIMIT, most - len(found))
        page = await client.monitors(limit=limit, offset=len(found))
        if page and page == found[-len(page) :]:
            raise UnexpectedAnswer("GET /v2/monitor: the service gives the same monitors for every offset")
        found += page
        if len(page) < limit:
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


def _next_run(one: "Monitor") -> datetime | None:
    return one.next_run_at


def _last_run(one: "Monitor") -> datetime | None:
    return one.last_run_at


_MONITORS: "Listing[Monitor]" = Listing(
    "monitor",
    (
        Column("id", lambda one: one.id or NOTHING, 36, 36),
        Column("status", lambda one: one.status or NOTHING, 8, 6, most=12),
        moment_column("next", _next_run),
        moment_column("last", _last_run, rank=2),
        Column("name", lambda one: one.name or NOTHING, 0, 12, most=40),
    ),
    _fields,
    lambda one: "" if one.status == "active" else "yellow",
)
