"""`receiver start crawl`: start a crawl of a site."""

import click

from receiver.cli.common.filter_options import text
from receiver.cli.common.service_calls import build
from receiver.cli.start.jobs import started, webhook, webhook_options, write_job
from receiver.settings import load_settings


@click.command()
@click.argument("url", type=text)
@click.option("--limit", type=int, metavar="N", help="At most this many pages.")
@webhook_options
def crawl(url: str, limit: int | None, events: tuple[str, ...], metadata: tuple[str, ...], as_json: bool) -> None:
    """Crawl a site, beginning at URL.

    The job's id is written to standard output.
    """
    from receiver.requests import CrawlRequest

    settings = load_settings()
    request = build(CrawlRequest, url=url, limit=limit, webhook=webhook(settings, events, metadata))
    write_job(started(settings, lambda client: client.crawl(request)), as_json=as_json)
