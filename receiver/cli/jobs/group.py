"""`receiver jobs`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.jobs.list:list_",
    "show": "receiver.cli.jobs.show:show",
    "fetch": "receiver.cli.jobs.fetch:fetch",
    "cancel": "receiver.cli.jobs.cancel:cancel",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def jobs() -> None:
    """Look at jobs: their events, the work on them, and warnings.

    A check of a monitor is a job too. Only `fetch` and `cancel` call the service.
    """
