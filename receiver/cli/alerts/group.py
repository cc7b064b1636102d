"""`receiver alerts`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "list": "receiver.cli.alerts.list:list_",
    "test": "receiver.cli.alerts.test:test",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def alerts() -> None:
    """Look at what needs somebody, and try whether alerts arrive.

    `receiver serve` and `receiver work` post alerts to RECEIVER_ALERT_URL: dead work, requests in quarantine, and
    what other settings name. `receiver check` says which.
    """
