"""`receiver events raw`: the exact bytes of a body."""

import click

from receiver.cli.common.filter_options import store_option, text
from receiver.cli.common.output import write_body
from receiver.cli.common.store import read
from receiver.cli.events.show import find
from receiver.errors import ReceiverError
from receiver.settings import load_settings


@click.command()
@click.argument("delivery_id", metavar="ID", type=text)
@store_option
def raw(delivery_id: str, store: str | None) -> None:
    """Write the exact bytes of an event's body to standard output.

    Nothing is added. On a terminal, control characters are shown as escapes.
    """
    detail = read(load_settings(store=store), lambda reports: find(reports, delivery_id))
    body = detail.body
    if body is None:
        raise ReceiverError(
            f"the body of event {detail.summary.key} was pruned; `events show` shows the other fields"
        )
    write_body(body)
