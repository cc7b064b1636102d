"""`receiver start`: the group of its subcommands."""

import click

from receiver.cli.common.lazy_group import LazyGroup

_SUBCOMMANDS = {
    "crawl": "receiver.cli.start.crawl:crawl",
    "batch_scrape": "receiver.cli.start.batch_scrape:batch_scrape",
    "extract": "receiver.cli.start.extract:extract",
    "agent": "receiver.cli.start.agent:agent",
}


@click.group(cls=LazyGroup, subcommands=_SUBCOMMANDS, aliases={"batch": "batch_scrape"})
def start() -> None:
    """Start a job at the service, with this receiver as its webhook.

    Jobs cost credits; --estimate says how many. These commands need RECEIVER_API_KEY, and RECEIVER_PUBLIC_URL: the
    address at which the service reaches this receiver. With --set webhook=URL the events go there, and with
    --set webhook=null nowhere.
    """
