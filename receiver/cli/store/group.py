"""`receiver store`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "copy": "receiver.cli.store.copy:copy",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def store() -> None:
    """Move from one kind of store to another."""
