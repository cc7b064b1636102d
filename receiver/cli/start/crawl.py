"""`receiver start crawl`: start a crawl of a site."""

import click

from receiver.cli.common.filter_options import text
from receiver.cli.common.service_fields import require_argument
from receiver.cli.start.jobs import Start, start_options


@click.command()
@click.argument("url", type=text, required=False)
@click.option("--limit", type=int, metavar="N", help="At most this many pages.")
@start_options
def crawl(url: str | None, limit: int | None, start: Start) -> None:
    """Crawl a site, beginning at URL.

    The job's id is written to standard output.
    """
    from receiver.requests import CrawlRequest

    fields = start.given.but(url=url, limit=limit)
    require_argument(fields, "url", "URL")
    start.job(CrawlRequest, fields, lambda client, request: client.crawl(request), family="crawl")
