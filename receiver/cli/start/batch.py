"""`receiver start batch`: start a scrape of several URLs."""

import click

from receiver.cli.common.filter_options import text
from receiver.cli.common.service_calls import build
from receiver.cli.start.jobs import started, webhook, webhook_options, write_job
from receiver.settings import load_settings


@click.command()
@click.argument("urls", metavar="URL...", type=text, nargs=-1, required=True)
@webhook_options
def batch(urls: tuple[str, ...], events: tuple[str, ...], metadata: tuple[str, ...], as_json: bool) -> None:
    """Scrape every URL in one job.

    The job's id is written to standard output.
    """
    from receiver.requests import BatchScrapeRequest

    settings = load_settings()
    request = build(BatchScrapeRequest, urls=urls, webhook=webhook(settings, events, metadata))
    write_job(started(settings, lambda client: client.batch_scrape(request)), as_json=as_json)
