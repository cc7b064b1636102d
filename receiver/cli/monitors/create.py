"""`receiver monitors create`: make a monitor whose events come to this receiver."""

import click

from receiver.cli.common.filter_options import json_option, text
from receiver.cli.common.output import note, quoted, write_json, write_line
from receiver.cli.common.service_calls import ask, build
from receiver.cli.common.service_fields import Given, field_options, require_argument, write_estimate
from receiver.cli.common.service_webhooks import Hook, hook_options
from receiver.core.text import escape_controls
from receiver.settings import load_settings

_DOUBT = "the service may have made the monitor: then `receiver monitors list` shows it"


@click.command()
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
