"""What the commands share that start a job: its webhook, the call, and the job's id as output."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.filter_options import json_option, text
from receiver.cli.common.output import note, quoted, write_json, write_line
from receiver.cli.common.service_calls import ask, build, may_be_done, pairs
from receiver.core.text import escape_controls
from receiver.errors import ReceiverError
from receiver.settings import Settings

if TYPE_CHECKING:  # the models take long to load, and the client loads httpx
    from receiver.requests import WebhookConfig
    from receiver.service.client import AsyncClient
    from receiver.service.responses import JobStarted

Command = Callable[..., Any]


def webhook_options(command: Command) -> Command:
    """Add `--event`, `--metadata` and `--json`."""
    for option in (
        json_option,
        click.option(
            "--metadata",
            type=text,
            multiple=True,
            metavar="NAME=VALUE",
            help="Returned in every event; may be repeated.",
        ),
        click.option(
            "--event",
            "events",
            type=text,
            multiple=True,
            metavar="NAME",
            help="Only these events, such as page; may be repeated.",
        ),
    ):
        command = option(command)
    return command


def webhook(settings: Settings, events: tuple[str, ...], metadata: tuple[str, ...]) -> "WebhookConfig":
    """Return the webhook of a new job: this receiver."""
    settings.plain_api_key()  # a missing key is an error before anything else is
    return build(settings.webhook, events=events, metadata=pairs(metadata))


def started(settings: Settings, start: Callable[["AsyncClient"], Awaitable["JobStarted"]]) -> "JobStarted":
    """Start a job. If nobody knows whether it was started, say so: a second start may cost twice."""
    try:
        return ask(settings, start)
    except (KeyboardInterrupt, ReceiverError) as exc:
        if isinstance(exc, KeyboardInterrupt) or may_be_done(exc):
            note(
                "the service may have started the job: then `receiver jobs list` shows it soon, "
                "and a second start would cost again"
            )
        raise


def write_job(job: "JobStarted", *, as_json: bool) -> None:
    """Write the id of a job that was started, and say which URLs the service left out."""
    job_id = job.id or ""
    if as_json:
        write_json({"job_id": job_id, "url": job.url, "invalid_urls": job.invalid_urls})
    else:
        write_line(escape_controls(job_id))
    for url in job.invalid_urls:
        note(f"left out, not a valid URL: {escape_controls(url)}")
    note(f"next: receiver jobs show {quoted(job_id)}")
