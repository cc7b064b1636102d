"""`receiver start`: jobs whose events come to this receiver."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.filter_options import json_option, text
from receiver.cli.common.output import note, quoted, write_bytes, write_line
from receiver.cli.common.service_calls import ask, build, may_be_done, pairs
from receiver.core.text import escape_controls
from receiver.errors import ReceiverError
from receiver.service.samples import encode
from receiver.settings import Settings, load_settings

if TYPE_CHECKING:  # the models take long to load, and the client loads httpx
    from receiver.requests import WebhookConfig
    from receiver.service.client import AsyncClient
    from receiver.service.responses import JobStarted

Command = Callable[..., Any]


@click.group()
def start() -> None:
    """Start a job at the service, with this receiver as its webhook.

    Needs RECEIVER_API_KEY, and RECEIVER_PUBLIC_URL, where the service reaches this receiver. Jobs cost credits.
    """


def _webhook_options(command: Command) -> Command:
    for option in (
        json_option,
        click.option(
            "--metadata", type=text, multiple=True, metavar="NAME=VALUE", help="Comes back in every event; several."
        ),
        click.option(
            "--event",
            "events",
            type=text,
            multiple=True,
            metavar="NAME",
            help="Only these events, as page; several.",
        ),
    ):
        command = option(command)
    return command


@start.command()
@click.argument("url", type=text)
@click.option("--limit", type=int, metavar="N", help="At most this many pages.")
@_webhook_options
def crawl(url: str, limit: int | None, events: tuple[str, ...], metadata: tuple[str, ...], as_json: bool) -> None:
    """Crawl a site from URL on. The job's id is written to standard output."""
    from receiver.requests import CrawlRequest

    settings = load_settings()
    request = build(CrawlRequest, url=url, limit=limit, webhook=_webhook(settings, events, metadata))
    _tell(_started(settings, lambda client: client.crawl(request)), as_json=as_json)


@start.command()
@click.argument("urls", metavar="URL...", type=text, nargs=-1, required=True)
@_webhook_options
def batch(urls: tuple[str, ...], events: tuple[str, ...], metadata: tuple[str, ...], as_json: bool) -> None:
    """Scrape every URL. The job's id is written to standard output."""
    from receiver.requests import BatchScrapeRequest

    settings = load_settings()
    request = build(BatchScrapeRequest, urls=urls, webhook=_webhook(settings, events, metadata))
    _tell(_started(settings, lambda client: client.batch_scrape(request)), as_json=as_json)


def _webhook(settings: Settings, events: tuple[str, ...], metadata: tuple[str, ...]) -> "WebhookConfig":
    settings.plain_api_key()  # what is missing is said before anything is looked at
    return build(settings.webhook, events=events, metadata=pairs(metadata))


def _started(settings: Settings, start: Callable[["AsyncClient"], Awaitable["JobStarted"]]) -> "JobStarted":
    """Start a job. Where nobody knows whether it was, that is said: to try again may cost twice."""
    try:
        return ask(settings, start)
    except (KeyboardInterrupt, ReceiverError) as exc:
        if isinstance(exc, KeyboardInterrupt) or may_be_done(exc):
            note(
                "the job may have been started all the same: if so, `receiver jobs list` hears of it; "
                "starting it again would cost again"
            )
        raise


def _tell(job: "JobStarted", *, as_json: bool) -> None:
    job_id = job.id or ""
    if as_json:
        write_bytes(encode({"id": job_id, "url": job.url, "invalid_urls": job.invalid_urls}) + b"\n")
    else:
        write_line(escape_controls(job_id))
    for url in job.invalid_urls:
        note(f"left out, for it is no URL: {escape_controls(url)}")
    note(f"next: receiver jobs show {quoted(job_id)}")
