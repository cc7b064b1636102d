"""`receiver monitors show`: one monitor, with all fields that the service has."""

import json

import click

from receiver.cli.common.filter_options import json_option
from receiver.cli.common.output import write_json, write_line
from receiver.cli.common.service_calls import as_it_came, ask
from receiver.cli.common.service_ids import monitor_id
from receiver.core.text import escape_controls
from receiver.settings import load_settings


@click.command()
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
