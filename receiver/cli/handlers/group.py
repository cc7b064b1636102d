"""`receiver handlers`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.handlers.list:list_",
    "pause": "receiver.cli.handlers.pause:pause",
    "resume": "receiver.cli.handlers.resume:resume",
    "disable": "receiver.cli.handlers.disable:disable",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def handlers() -> None:
    """Look at handlers; pause, resume or disable them.

    This holds for all workers, also after a restart. The work of a paused handler waits, and runs after a resume.
    The work of a disabled handler is recorded as skipped, and runs only after `receiver work-items retry`.
    """
