"""`receiver store`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "copy": "receiver.cli.store.copy:copy",
    "migrate": "receiver.cli.store.migrate:migrate",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def store() -> None:
    """Make or migrate a store, or move to another kind of store."""
