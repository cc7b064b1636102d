"""`receiver start batch_scrape`: start a scrape of several URLs."""

import click

from receiver.cli.common.filter_options import text
from receiver.cli.common.service_fields import require_argument
from receiver.cli.start.jobs import Start, start_options


@click.command("batch_scrape")
@click.argument("urls", metavar="[URL]...", type=text, nargs=-1)
@start_options
def batch_scrape(urls: tuple[str, ...], start: Start) -> None:
    """Scrape every URL in one job.

    The job's id is written to standard output. `receiver start batch` is the same.
    """
    from receiver.requests import BatchScrapeRequest

    fields = start.given.but(urls=urls)
    require_argument(fields, "urls", "URL...")
    start.job(
        BatchScrapeRequest, fields, lambda client, request: client.batch_scrape(request), family="batch_scrape"
    )
