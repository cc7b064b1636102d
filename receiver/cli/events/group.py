"""`receiver events`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.events.list:list_",
    "show": "receiver.cli.events.show:show",
    "raw": "receiver.cli.events.raw:raw",
    "export": "receiver.cli.events.export:export",
    "import": "receiver.cli.events.import_:import_",
    "prune": "receiver.cli.events.prune:prune",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def events() -> None:
    """Look at stored events, export, import and prune them.

    Each event is one delivery as it was received. An ID may be shortened to any beginning that only one event has.
    """
