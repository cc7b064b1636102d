"""`receiver monitors`: the monitors of the account, whose events come to this receiver."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import json_option, list_limit_option, plan_options, text
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import note, quoted, shown, write_json, write_line
from receiver.cli.common.service import as_it_came, ask, build, monitor_id
from receiver.cli.common.service_fields import (
    Given,
    Hook,
    field_options,
    hook_options,
    require_argument,
    write_estimate,
)
from receiver.cli.common.tables import NOTHING, Column, ListForm, Listing, form_options, moment_column, only_newest
from receiver.core.clock import iso
from receiver.core.text import counted, escape_controls
from receiver.errors import UnexpectedAnswer
from receiver.settings import load_settings

if TYPE_CHECKING:  # the models take long to load, and the client loads httpx
    from receiver.service.client import AsyncClient
    from receiver.service.responses import Monitor


@click.group(cls=CommandGroup)
def monitors() -> None:
    """Look at monitors, and make, run, pause or delete them.

    These commands need RECEIVER_API_KEY.
    """


SCAN_LIMIT = 100


@monitors.command("list")
@list_limit_option
@form_options(lambda: _MONITORS.columns)
def list_(limit: int | None, form: ListForm) -> None:
    """List monitors, the newest first."""
    most = form.most(limit)
    found = ask(load_settings(), lambda client: _read(client, most if limit or most is None else most + 1))
    shown = found[:most]
    _MONITORS.write_all(shown, form)
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


_MONITORS: "Listing[Monitor]" = Listing(
    "monitor",
    (
        Column("id", lambda one: one.id or NOTHING, 36, 36),
        Column("status", lambda one: one.status or NOTHING, 8, 6, most=12),
        moment_column("next", lambda one: one.next_run_at),
        moment_column("last", lambda one: one.last_run_at, rank=2),
        Column("name", lambda one: one.name or NOTHING, 0, 12, most=40),
    ),
    _fields,
    lambda one: "" if one.status == "active" else "yellow",
)


@monitors.command()
@click.argument("monitor_id", metavar="ID", type=monitor_id)
@json_option
def show(monitor_id: str, as_json: bool) -> None:
    """Show every field of a monitor that the service has."""
    settings = load_settings()
    settings.plain_api_key()  # a missing key is an error before the client is loaded
    from receiver.service.client import monitors as calls

    call = as_it_came(calls.monitor(monitor_id))
    found = ask(settings, lambda client: client.send(call))
    if as_json:
        write_json(found)
        return
    width = max((len(name) for name in found), default=0) + 1
    for name, value in found.items():
        written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        write_line(escape_controls(f"{name:<{width}} {written}"))


@monitors.command()
@click.argument("monitor_id", metavar="ID", type=monitor_id)
@json_option
def run(monitor_id: str, as_json: bool) -> None:
    """Run a monitor now.

    The service queues a check; its id is written to standard output. A check is a job.
    """
    check = ask(load_settings(), lambda client: client.run_monitor(monitor_id))
    job_id = check.id or ""
    if as_json:
        write_json({"job_id": job_id, "monitor_id": monitor_id, "status": check.status})
    else:
        write_line(escape_controls(job_id))
    note(f"next: receiver jobs show {quoted(job_id)}, once its first event has arrived")


_DOUBT = "the service may have made the monitor: then `receiver monitors list` shows it"


@monitors.command()
@click.argument("name", type=text, required=False)
@click.argument("urls", metavar="[URL]...", type=text, nargs=-1)
@click.option("--cron", type=text, metavar="EXPR", help="When it runs, such as '0 9 * * 1'; numbers only.")
@click.option("--every", type=text, metavar="WORDS", help="When it runs, such as hourly or 'daily at 9:00'.")
@click.option("--timezone", type=text, metavar="ZONE", help="Time zone of the schedule; UTC without it.")
@click.option("--goal", type=text, metavar="TEXT", help="The changes that matter; a judge compares with it.")
@hook_options
@field_options
@json_option
def create(
    name: str | None,
    urls: tuple[str, ...],
    cron: str | None,
    every: str | None,
    timezone: str | None,
    goal: str | None,
    hook: Hook,
    given: Given,
    as_json: bool,
) -> None:
    """Make a monitor with this NAME that scrapes the URLs at each check.

    Its id is written to standard output. Other targets come from --set or --json-body. The events go to
    RECEIVER_PUBLIC_URL; with --set webhook=URL they go there, and with --set webhook=null nowhere. --estimate is
    for one check.
    """
    from receiver.requests import MonitorRequest

    schedule = {key: one for key, one in (("cron", cron), ("text", every), ("timezone", timezone)) if one}
    targets = [{"type": "scrape", "urls": urls}] if urls else None
    fields = given.but(name=name, schedule=schedule or None, targets=targets, goal=goal)
    require_argument(fields, "name", "NAME")
    if "schedule" not in fields:
        raise click.UsageError("say when it runs: --cron '0 9 * * 1', or --every 'daily at 9:00'")
    if given.estimate:
        write_estimate(build(MonitorRequest, **fields), as_json=as_json)
        return
    settings = load_settings()
    settings.plain_api_key()  # a missing key is an error before anything else is
    request = build(MonitorRequest, **hook.added_to(fields, settings))
    made = ask(settings, lambda client: client.create_monitor(request), doubt=_DOUBT)
    monitor_id = made.id or ""
    if as_json:
        write_json({"monitor_id": monitor_id, "name": made.name, "status": made.status})
    else:
        write_line(escape_controls(monitor_id))
    note(f"next: receiver monitors run {quoted(monitor_id)}")


def set_status(monitor_id: str, status: Literal["active", "paused"], *, as_json: bool) -> None:
    """Change the status of a monitor, and write the one that the service says it has now."""
    settings = load_settings()
    settings.plain_api_key()  # a missing key is an error before the models are loaded
    from receiver.requests import MonitorChanges

    changed = ask(settings, lambda client: client.update_monitor(monitor_id, MonitorChanges(status=status)))
    if as_json:
        write_json({"monitor_id": monitor_id, "status": changed.status})
    else:
        write_line(escape_controls(f"{monitor_id}  {changed.status or '-'}"))


@monitors.command()
@click.argument("monitor_id", metavar="ID", type=monitor_id)
@json_option
def pause(monitor_id: str, as_json: bool) -> None:
    """Stop the checks of a monitor, until it is resumed."""
    set_status(monitor_id, "paused", as_json=as_json)


@monitors.command()
@click.argument("monitor_id", metavar="ID", type=monitor_id)
@json_option
def resume(monitor_id: str, as_json: bool) -> None:
    """Let a paused monitor run again by its schedule."""
    set_status(monitor_id, "active", as_json=as_json)


@monitors.command()
@click.argument("monitor_id", metavar="ID", type=monitor_id)
@plan_options
def delete(monitor_id: str, yes: bool, dry_run: bool) -> int:
    """Delete a monitor at the service, after showing it.

    This cannot be undone, a pause can. Events that have arrived stay in the store.
    """
    settings = load_settings()
    found = ask(settings, lambda client: client.monitor(monitor_id))
    for line in _plan(monitor_id, found):
        say(line)
    if dry_run:
        return OK
    if not agreed("Delete this monitor?", yes=yes):
        return FAILED
    ask(settings, lambda client: client.delete_monitor(monitor_id))
    say(f"deleted monitor {escape_controls(monitor_id)}")
    return OK


def _plan(monitor_id: str, found: "Monitor") -> Iterator[str]:
    schedule = found.schedule
    yield f"monitor {escape_controls(monitor_id)}"
    yield f"  name      {shown(found.name)}"
    yield f"  status    {shown(found.status)}"
    yield f"  schedule  {shown(schedule and schedule.cron)} {shown((schedule and schedule.timezone) or 'UTC')}"
    yield f"  targets   {counted(len(found.targets), 'target')}"
