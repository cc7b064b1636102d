"""`receiver monitors delete`: delete a monitor."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import plan_options
from receiver.cli.common.output import shown
from receiver.cli.common.service_calls import ask
from receiver.cli.common.service_ids import monitor_id
from receiver.core.text import counted, escape_controls
from receiver.settings import load_settings

if TYPE_CHECKING:  # it loads the models
    from receiver.service.responses import Monitor


@click.command()
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
