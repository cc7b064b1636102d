"""`receiver events raw`: the exact bytes of a body."""

import click

from receiver.cli.common.filter_options import store_option, text
from receiver.cli.common.output import force_option, refuse_terminal, write_bytes
from receiver.cli.common.store import read
from receiver.cli.events.show import find
from receiver.errors import ReceiverError, UnreadableBody
from receiver.settings import load_reading_settings


@click.command()
@click.argument("delivery_id", metavar="ID", type=text)
@force_option
@store_option
def raw(delivery_id: str, force: bool, store: str | None) -> None:
    """Write the exact bytes of an event's body to standard output.

    Nothing is added or changed, so a terminal is refused unless you add --force: the body could control it.
    """
    refuse_terminal(force=force)
    detail = read(load_reading_settings(store=store), lambda reports: find(reports, delivery_id))
    if detail.unreadable:
        raise UnreadableBody(detail.unreadable)
    body = detail.body
    if body is None:
        raise ReceiverError(
            f"the body of event {detail.summary.key} was pruned; `events show` shows the other fields"
        )
    write_bytes(body)
