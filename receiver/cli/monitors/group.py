"""`receiver monitors`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.monitors.list:list_",
    "show": "receiver.cli.monitors.show:show",
    "run": "receiver.cli.monitors.run:run",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def monitors() -> None:
    """Look at the monitors of your account, and run one now.

    These commands need RECEIVER_API_KEY.
    """
