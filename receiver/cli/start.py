"""`receiver start`: start a job at the service, with this receiver as its webhook."""

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from receiver.cli.common.filters import json_option, text
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import note, quoted, write_json, write_line
from receiver.cli.common.service import ask, build
from receiver.cli.common.service_fields import (
    Given,
    Hook,
    field_options,
    hook_options,
    require_argument,
    write_estimate,
)
from receiver.core.text import escape_controls
from receiver.settings import load_settings

if TYPE_CHECKING:  # the models take long to load, and the client loads httpx
    from receiver.requests.costs import Estimated
    from receiver.service.client import AsyncClient
    from receiver.service.responses import JobStarted

Command = Callable[..., Any]
R = TypeVar("R", bound="Estimated")

_DOUBT = (
    "the service may have started the job: then `receiver jobs list` shows it soon, "
    "and a second start would cost again"
)


@dataclass(frozen=True, slots=True)
class Start:
    """What the options say about a job to start."""

    given: Given
    hook: Hook
    as_json: bool

    def job(
        self,
        make: Callable[..., R],
        fields: Mapping[str, Any],
        send: Callable[["AsyncClient", R], Awaitable["JobStarted"]],
        *,
        family: str,
    ) -> None:
        """Start the job and write its id; with `--estimate` write only what it may cost."""
        if self.given.estimate:
            write_estimate(build(make, **fields), as_json=self.as_json)
            return
        settings = load_settings()
        settings.plain_api_key()  # a missing key is an error before anything else is
        request = build(make, **self.hook.added_to(fields, settings))
        job = ask(settings, lambda client: send(client, request), doubt=_DOUBT)
        _write(job, _next_command(job.id or "", family, comes_here="webhook" not in fields), as_json=self.as_json)


def start_options(command: Command) -> Command:
    """Add the options that every start has, as one argument `start`."""

    @functools.wraps(command)
    def with_start(*args: Any, given: Given, hook: Hook, as_json: bool, **kwargs: Any) -> Any:
        return command(*args, start=Start(given, hook, as_json), **kwargs)

    return hook_options(field_options(json_option(with_start)))


def _next_command(job_id: str, family: str, *, comes_here: bool) -> str:
    """Return the command that shows the job; the store knows a job only by its events."""
    if comes_here:
        return f"receiver jobs show {quoted(job_id)}, once its first event has arrived"
    return f"receiver jobs fetch {quoted(job_id)} --family {family}, once it is over"


def _write(job: "JobStarted", next_command: str, *, as_json: bool) -> None:
    """Write the id of a job that was started, and say which URLs the service left out, and what to do next."""
    job_id = job.id or ""
    if as_json:
        write_json({"job_id": job_id, "url": job.url, "invalid_urls": job.invalid_urls})
    else:
        write_line(escape_controls(job_id))
    for url in job.invalid_urls:
        note(f"left out, not a valid URL: {escape_controls(url)}")
    note(f"next: {next_command}")


@click.group(cls=CommandGroup)
def start() -> None:
    """Start a job at the service, with this receiver as its webhook.

    Jobs cost credits; --estimate says how many. These commands need RECEIVER_API_KEY, and RECEIVER_PUBLIC_URL: the
    address at which the service reaches this receiver. With --set webhook=URL the events go there, and with
    --set webhook=null nowhere.
    """


@start.command()
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


@start.command("batch_scrape")
@click.argument("urls", metavar="[URL]...", type=text, nargs=-1)
@start_options
def batch_scrape(urls: tuple[str, ...], start: Start) -> None:
    """Scrape every URL in one job.

    The job's id is written to standard output.
    """
    from receiver.requests import BatchScrapeRequest

    fields = start.given.but(urls=urls)
    require_argument(fields, "urls", "URL...")
    start.job(
        BatchScrapeRequest, fields, lambda client, request: client.batch_scrape(request), family="batch_scrape"
    )


@start.command()
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


@start.command()
@click.argument("prompt", type=text, required=False)
@click.argument("urls", metavar="[URL]...", type=text, nargs=-1)
@click.option("--max-credits", type=int, metavar="N", help="The most credits that the job may cost.")
@start_options
def agent(prompt: str | None, urls: tuple[str, ...], max_credits: int | None, start: Start) -> None:
    """Let an agent collect data by itself.

    It looks for what PROMPT asks for, beginning at the URLs if there are any. The job's id is written to standard
    output. --set schema=JSON gives the form of the result.
    """
    from receiver.requests import AgentRequest

    fields = start.given.but(prompt=prompt, urls=urls, maxCredits=max_credits)
    require_argument(fields, "prompt", "PROMPT")
    start.job(AgentRequest, fields, lambda client, request: client.agent(request), family="agent")
