"""`receiver quarantine show`: one request in quarantine."""

import click

from receiver.cli.common.filter_options import json_option, store_option
from receiver.cli.common.output import shown, with_local_times, write_json, write_line
from receiver.cli.common.row_ids import REQUEST_ID
from receiver.cli.common.store import read
from receiver.core.text import escape_controls, shortened
from receiver.core.views import quarantined_detail
from receiver.settings import load_reading_settings

_PREVIEW = 2_000
"""Characters of the body."""


@click.command()
@click.argument("request_id", metavar="ID", type=REQUEST_ID)
@json_option
@store_option
def show(request_id: int, as_json: bool, store: str | None) -> None:
    """Show a request: reason, headers, and the body's beginning."""
    request = read(load_reading_settings(store=store), lambda reports: reports.quarantined_request(request_id))
    fields = quarantined_detail(request_id, request)
    if as_json:
        write_json(fields)
        return
    headers = fields.pop("headers")
    for name, value in with_local_times(fields).items():
        write_line(f"{name:<13}{shown(value)}")
    write_line("\nheaders")
    for name, value in headers:
        write_line(f"  {escape_controls(name)}: {shown(value)}")
    body = request.body[: 4 * _PREVIEW].decode("utf-8", "backslashreplace")
    write_line("\nbody")
    write_line(escape_controls(shortened(body, _PREVIEW), keep="\n\t"))
