"""`receiver monitors resume`: let a paused monitor run again by its schedule."""

import click

from receiver.cli.common.filter_options import json_option
from receiver.cli.common.service_ids import monitor_id
from receiver.cli.monitors.status import set_status


@click.command()
@click.argument("monitor_id", metavar="ID", type=monitor_id)
@json_option
def resume(monitor_id: str, as_json: bool) -> None:
    """Let a paused monitor run again by its schedule."""
    set_status(monitor_id, "active", as_json=as_json)
