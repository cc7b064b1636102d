"""Which job of the service is meant on the command line, and what the service says it produced."""

import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.filter_options import text
from receiver.cli.common.store import configured_store, open_reports
from receiver.core.ports.reports import JobReader
from receiver.errors import UnknownJob
from receiver.replay.backfill.comparing import Delivered, delivered
from receiver.settings import Settings

if TYPE_CHECKING:  # it loads httpx
    from receiver.service.client import AsyncClient

_FAMILIES = ("crawl", "batch_scrape", "extract", "agent")


@dataclass(frozen=True, slots=True)
class Unknown:
    """What a job is of which nothing has arrived: its family, and for a check its monitor."""

    family: str | None
    monitor_id: str | None


def unknown_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--family` and `--monitor`, as one argument `unknown`."""

    @functools.wraps(command)
    def given(*args: Any, family: str | None, monitor: str | None, **kwargs: Any) -> Any:
        return command(*args, unknown=Unknown("monitor" if monitor else family, monitor), **kwargs)

    decorated: Callable[..., Any] = given
    for option in (
        click.option("--monitor", type=text, metavar="ID", help="Whose check ID is, if nothing of it has arrived."),
        click.option("--family", type=click.Choice(_FAMILIES), help="What ID is, if nothing of it has arrived."),
    ):
        decorated = option(decorated)
    return decorated


async def resolve(reports: JobReader, prefix: str, unknown: Unknown) -> str:
    """Return the one job whose id begins so. One of which nothing has come is taken by its word if it is known."""
    try:
        return await reports.resolve_job(prefix)
    except UnknownJob as exc:
        if unknown.family is not None:
            return prefix
        raise UnknownJob(f"{exc}; if nothing of it has arrived, say what it is with --family or --monitor") from exc


async def arrived(settings: Settings, prefix: str, unknown: Unknown, *, partly: bool) -> Delivered:
    """Return what has arrived of the one job whose id begins so; `partly` passes over what was pruned.

    Where there is no store nothing has.
    """
    if configured_store(settings).exists():
        async with open_reports(settings) as reports:
            return await delivered(reports, await resolve(reports, prefix, unknown), partly=partly)
    if unknown.family is None:
        raise UnknownJob(f"there is no store that knows job {prefix}: say what it is with --family or --monitor")
    return Delivered(prefix)


def events_of(client: "AsyncClient", found: Delivered, unknown: Unknown) -> AsyncIterator[dict[str, Any]]:
    """Return what the service says that a job produced."""
    from receiver.replay.backfill.production import Asked, produced

    family = found.family or unknown.family or ""
    return produced(client, Asked(found.job_id, family, found.monitor_id or unknown.monitor_id))
