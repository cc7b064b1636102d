"""`receiver quarantine raw`: the exact bytes of a refused body."""

import click

from receiver.cli.common.filter_options import store_option
from receiver.cli.common.output import write_body
from receiver.cli.common.store import read
from receiver.cli.quarantine.ids import REQUEST_ID
from receiver.settings import load_settings


@click.command()
@click.argument("request_id", metavar="ID", type=REQUEST_ID)
@store_option
def raw(request_id: int, store: str | None) -> None:
    """Write the exact bytes of a request's body to standard output.

    Nothing is added. On a terminal, control characters are shown as escapes.
    """
    write_body(read(load_settings(store=store), lambda reports: reports.quarantined_request(request_id)).body)
