"""`receiver jobs cancel`: stop a job at the service."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import click

from receiver.cli.common.confirm import say
from receiver.cli.common.filter_options import store_option, text
from receiver.cli.common.service_calls import ask
from receiver.cli.common.service_jobs import Unknown, family_option, resolve, whole_job_id
from receiver.cli.common.store import configured_store, open_reports
from receiver.core.text import escape_controls
from receiver.errors import UnknownJob
from receiver.settings import Settings, load_settings

if TYPE_CHECKING:  # it loads httpx
    from receiver.service.client import AsyncClient

_CANCEL: Mapping[str, Callable[["AsyncClient", str], Awaitable[None]]] = {
    "crawl": lambda client, job_id: client.cancel_crawl(job_id),
    "batch_scrape": lambda client, job_id: client.cancel_batch(job_id),
    "agent": lambda client, job_id: client.cancel_agent(job_id),
}
"""The operation that cancels a job, by its family. The service has none for the others."""


@click.command()
@click.argument("job_id", metavar="ID", type=text)
@family_option
@store_option
def cancel(job_id: str, family: str | None, store: str | None) -> None:
    """Stop a crawl, a batch scrape or an agent at the service.

    ID may be shortened to any beginning that only one job has. What was scraped stays, and costs. Pages that waited
    come as failed events, and then the job's last event. Needs RECEIVER_API_KEY.
    """
    settings = load_settings(store=store)
    settings.plain_api_key()  # a missing key is an error before the store is read
    found, kind = asyncio.run(_find(settings, job_id, family))
    if kind not in _CANCEL:
        raise click.UsageError(
            f"{escape_controls(found)} is of the family {escape_controls(kind)}, and the service cancels only "
            f"{', '.join(_CANCEL)}"
        )
    ask(settings, lambda client: _CANCEL[kind](client, found))
    say(f"cancelled {kind} {escape_controls(found)}")


async def _find(settings: Settings, prefix: str, family: str | None) -> tuple[str, str]:
    """Return id and family of the one job whose id begins so; by `family` if none of its events arrived."""
    if not configured_store(settings).exists():
        if family is None:
            raise UnknownJob(f"there is no store, so add --family for job {prefix}")
        return whole_job_id(prefix), family
    async with open_reports(settings) as reports:
        job_id = await resolve(reports, prefix, Unknown(family, None))
        try:
            return job_id, (await reports.job(job_id)).summary.family
        except UnknownJob:
            return job_id, family or ""
