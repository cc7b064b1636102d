"""`receiver start extract`: start an extraction of structured data."""

import click

from receiver.cli.common.filter_options import text
from receiver.cli.start.jobs import Start, start_options


@click.command()
@click.argument("urls", metavar="[URL]...", type=text, nargs=-1)
@click.option("--prompt", type=text, metavar="TEXT", help="What to extract, in plain words.")
@start_options
def extract(urls: tuple[str, ...], prompt: str | None, start: Start) -> None:
    """Extract structured data from pages.

    The pages are those of the URLs, or what the service finds by the prompt. The job's id is written to standard
    output. --set schema=JSON gives the form of the result.
    """
    from receiver.requests import ExtractRequest

    fields = start.given.but(urls=urls, prompt=prompt)
    start.job(ExtractRequest, fields, lambda client, request: client.extract(request), family="extract")
