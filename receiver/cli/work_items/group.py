"""`receiver work-items`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.work_items.list:list_",
    "show": "receiver.cli.work_items.show:show",
    "retry": "receiver.cli.work_items.retry:retry",
    "bury": "receiver.cli.work_items.bury:bury",
    "states": "receiver.cli.work_items.states:states",
}


@click.group("work-items", cls=LazyGroup, subcommands=_SUBCOMMANDS)
def work_items() -> None:
    """Look at work items, run them again, or discard them.

    There is one work item for each delivery and handler.
    """
