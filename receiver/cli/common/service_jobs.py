"""The job that a command names, and the events that the service says it produced."""

import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.service_ids import is_shortened, monitor_id
from receiver.cli.common.store import configured_store, open_reports
from receiver.core.ports.reports import Reports
from receiver.errors import AmbiguousJob, UnknownJob
from receiver.replay.backfill.comparing import Delivered, delivered
from receiver.service.samples import FAMILY_ALIASES
from receiver.settings import Settings

if TYPE_CHECKING:  # it loads httpx
    from receiver.service.client import AsyncClient

_FAMILIES = ("crawl", "batch_scrape", "extract", "agent")


class _Family(click.Choice[str]):
    """A family by its name in event types; `batch` is read as `batch_scrape`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(FAMILY_ALIASES.get(value, value), param, ctx)


def family_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--family`."""
    return click.option(
        "--family", type=_Family(_FAMILIES), help="The family of a job, if none of its events arrived."
    )(command)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The kind of a job of which no event has arrived: its family, and for a check its monitor."""

    family: str | None
    monitor_id: str | None


def unknown_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--family` and `--monitor`, as one argument `unknown`."""

    @functools.wraps(command)
    def given(*args: Any, family: str | None, monitor: str | None, **kwargs: Any) -> Any:
        return command(*args, unknown=Unknown("monitor" if monitor else family, monitor), **kwargs)

    decorated: Callable[..., Any] = given
    for option in (
        click.option(
            "--monitor",
            type=monitor_id,
            metavar="ID",
            help="The monitor of a check, if none of its events arrived.",
        ),
        family_option,
    ):
        decorated = option(decorated)
    return decorated


async def resolve(reports: Reports, prefix: str, unknown: Unknown) -> str:
    """Return the one job whose id begins so. If none does and `unknown` gives a family, the prefix is the id.

    Raises UnknownJob if there is no such job, or if that id is shortened: the service takes only whole ones.
    """
    try:
        return await reports.resolve_job(prefix)
    except AmbiguousJob:
        raise
    except UnknownJob as exc:
        if unknown.family is not None:
            return whole_job_id(prefix)
        raise UnknownJob(f"{exc}; if none of its events arrived, add --family or --monitor") from exc


async def arrived(settings: Settings, prefix: str, unknown: Unknown, *, partly: bool) -> Delivered:
    """Return what has arrived of the one job whose id begins so; `partly` skips what was pruned.

    Without a store nothing has arrived.
    """
    if configured_store(settings).exists():
        async with open_reports(settings) as reports:
            return await delivered(reports, await resolve(reports, prefix, unknown), partly=partly)
    if unknown.family is None:
        raise UnknownJob(f"there is no store, so add --family or --monitor for job {prefix}")
    return Delivered(whole_job_id(prefix))


def whole_job_id(job_id: str) -> str:
    """Return the id of a job that the store does not know; raise UnknownJob if it is shortened."""
    if is_shortened(job_id):
        raise UnknownJob(f"none of the events of job {job_id} arrived, so the service needs its whole id")
    return job_id


def events_of(client: "AsyncClient", found: Delivered, unknown: Unknown) -> AsyncIterator[dict[str, Any]]:
    """Return the events that a job produced, made from the service's answers."""
    from receiver.replay.backfill.production import Asked, produced

    family = found.family or unknown.family or ""
    return produced(client, Asked(found.job_id, family, found.monitor_id or unknown.monitor_id))
