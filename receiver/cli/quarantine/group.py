"""`receiver quarantine`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.quarantine.list:list_",
    "show": "receiver.cli.quarantine.show:show",
    "raw": "receiver.cli.quarantine.raw:raw",
    "release": "receiver.cli.quarantine.release:release",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def quarantine() -> None:
    """Look at requests that were authentic but refused.

    A request is malformed if its body has no envelope. It is a conflict if its id was known with another body.
    """
