"""`receiver quarantine raw`: the exact bytes of a refused body."""

import click

from receiver.cli.common.filter_options import store_option
from receiver.cli.common.output import force_option, refuse_terminal, write_bytes
from receiver.cli.common.row_ids import REQUEST_ID
from receiver.cli.common.store import read
from receiver.settings import load_reading_settings


@click.command()
@click.argument("request_id", metavar="ID", type=REQUEST_ID)
@force_option
@store_option
def raw(request_id: int, force: bool, store: str | None) -> None:
    """Write the exact bytes of a request's body to standard output.

    Nothing is added or changed, so a terminal is refused unless you add --force: the body could control it.
    """
    refuse_terminal(force=force)
    write_bytes(
        read(load_reading_settings(store=store), lambda reports: reports.quarantined_request(request_id)).body
    )
