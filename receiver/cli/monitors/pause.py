"""`receiver monitors pause`: stop the checks of a monitor, until it is resumed."""

import click

from receiver.cli.common.filter_options import json_option
from receiver.cli.common.service_ids import monitor_id
from receiver.cli.monitors.status import set_status


@click.command()
@click.argument("monitor_id", metavar="ID", type=monitor_id)
@json_option
def pause(monitor_id: str, as_json: bool) -> None:
    """Stop the checks of a monitor, until it is resumed."""
    set_status(monitor_id, "paused", as_json=as_json)
