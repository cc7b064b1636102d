"""What `receiver monitors pause` and `resume` share."""

from typing import Literal

from receiver.cli.common.output import write_json, write_line
from receiver.cli.common.service_calls import ask
from receiver.core.text import escape_controls
from receiver.settings import load_settings


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
