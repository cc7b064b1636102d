"""`receiver monitors run`: start a check of a monitor."""

import click

from receiver.cli.common.filter_options import json_option
from receiver.cli.common.output import note, quoted, write_json, write_line
from receiver.cli.common.service_calls import ask
from receiver.cli.common.service_ids import monitor_id
from receiver.core.text import escape_controls
from receiver.settings import load_settings


@click.command()
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
