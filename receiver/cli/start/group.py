"""`receiver start`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "crawl": "receiver.cli.start.crawl:crawl",
    "batch": "receiver.cli.start.batch:batch",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS)
def start() -> None:
    """Start a job at the service, with this receiver as its webhook.

    Jobs cost credits. These commands need RECEIVER_API_KEY, and RECEIVER_PUBLIC_URL: the address at which the
    service reaches this receiver.
    """
