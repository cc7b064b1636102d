"""`receiver monitors`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.monitors.list:list_",
    "show": "receiver.cli.monitors.show:show",
    "run": "receiver.cli.monitors.run:run",
    "create": "receiver.cli.monitors.create:create",
    "pause": "receiver.cli.monitors.pause:pause",
    "resume": "receiver.cli.monitors.resume:resume",
    "delete": "receiver.cli.monitors.delete:delete",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def monitors() -> None:
    """Look at monitors, and make, run, pause or delete them.

    These commands need RECEIVER_API_KEY.
    """
