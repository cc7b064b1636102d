"""`receiver backfill`: events that jobs produced and that no webhook delivered."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import in_time_of_store, json_option, moment, plan_options, store_option, text
from receiver.cli.common.output import note, progress, write_json
from receiver.cli.common.service import Unknown, events_of, import_missing, open_client, resolve, unknown_options
from receiver.cli.common.store import open_reports
from receiver.core.jobs import JobFilter
from receiver.core.text import counted, escape_controls
from receiver.core.types import Origin
from receiver.errors import NotComparable, ReceiverError, ServiceError
from receiver.replay.backfill.comparing import FOR_ALL, Missing, Spool, compare, delivered
from receiver.settings import Settings, load_settings

_SHOWN = 10


@dataclass(slots=True)
class Compared:
    """One job: its missing events, or why they are unknown, and how many were imported."""

    job_id: str
    missing: Missing | None = None
    problem: str | None = None
    imported: int = 0

    def fields(self) -> dict[str, Any]:
        """Return the job as `--json` has it."""
        found = self.missing
        return {
            "job_id": self.job_id,
            "produced": found and found.produced,
            "missing": found and dict(found.counts),
            "unclear": found and found.unclear,
            "imported": self.imported,
            "problem": self.problem,
        }


@click.command()
@click.option(
    "--job",
    "job_ids",
    type=text,
    multiple=True,
    metavar="ID",
    help="This job or check; may be shortened and repeated.",
)
@click.option(
    "--since",
    type=moment,
    metavar="WHEN",
    help="Every job with events from this time on, beside those of --job: ISO 8601, or 2h, 1d before now.",
)
@click.option("--type", "wanted", type=text, metavar="GLOB", help="Only events of these types, such as '*.page'.")
@unknown_options
@plan_options
@json_option
@store_option
@in_time_of_store
def backfill(
    job_ids: tuple[str, ...],
    since: datetime | None,
    wanted: str | None,
    unknown: Unknown,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    store: str | None,
) -> int:
    """Ask the service what jobs produced, and import missing events.

    Your handlers then run on them. The command compares pages and failed pages by scrape id or URL, and the event
    that ends a job. The id of an imported event begins with backfill:. Its origin is backfill, as is the
    trigger of its first attempt. The command may be repeated. The service keeps results for 24 hours. Exit code 1
    if a job cannot be compared, for example because it still runs. Needs RECEIVER_API_KEY.
    """
    if not job_ids and since is None:
        raise click.UsageError("choose jobs with --job ID or --since WHEN")
    if unknown.family and not job_ids:
        raise click.UsageError("--family and --monitor go with --job ID")
    settings = load_settings(store=store)
    settings.plain_api_key()  # a missing key is an error before anything is opened
    with Spool() as spool:
        try:
            jobs = asyncio.run(_compare(settings, job_ids, since, unknown, spool, wanted))
        except KeyboardInterrupt:
            note("stopped: nothing was changed")
            raise
        problems = [one for one in jobs if one.problem is not None]
        for one in problems:
            note(f"job {escape_controls(one.job_id)} cannot be compared: {escape_controls(one.problem or '')}")
        code = _carry_out(settings, jobs, spool, yes=yes, dry_run=dry_run, quiet=as_json)
    if as_json:
        for one in jobs:
            write_json(one.fields())
    return FAILED if problems else code


def _carry_out(
    settings: Settings, jobs: Sequence[Compared], spool: Spool, *, yes: bool, dry_run: bool, quiet: bool
) -> int:
    """Show the plan, ask, and import the missing events."""
    count = sum(one.missing.count for one in jobs if one.missing)
    if not jobs:
        note("no job matched")
    if not quiet and any(one.missing for one in jobs):
        for line in _plan(jobs, count):
            say(line)
    if dry_run or not count:
        return OK
    if not agreed(f"Import {counted(count, 'event')}?", yes=yes):
        return FAILED
    lacking = [one.missing for one in jobs if one.missing and one.missing.count]
    about = f"job {lacking[0].job_id}" if len(lacking) == 1 else counted(len(lacking), "job")
    imported = asyncio.run(
        import_missing(
            settings, lacking, spool, verb="backfill", about=about, done="imported", origin=Origin.BACKFILL
        )
    )
    for one in jobs:
        one.imported = imported[one.job_id]
    if not quiet:
        say(f"imported {counted(imported.total(), 'event')}, for workers to handle")
    return OK


def _plan(jobs: Sequence[Compared], count: int) -> Iterator[str]:
    compared = [one.missing for one in jobs if one.missing]
    lacking = [one for one in compared if one.count]
    yield f"{counted(count, 'event')} to import, of {counted(len(compared), 'compared job')}"
    types = sum((Counter(one.counts) for one in lacking), Counter[str]())
    if types:
        yield "  by type"
    for kind, number in types.most_common():
        yield f"    {number:>11,}  {kind}"
    for number, one in enumerate(lacking[:_SHOWN]):
        lack = f"{one.count:,} of {one.produced:,} missing"
        yield f"  {'' if number else 'jobs':<9} {escape_controls(one.job_id)}  {lack}"
    if len(lacking) > _SHOWN:
        yield f"            and {len(lacking) - _SHOWN:,} more"
    if unclear := sum(one.unclear for one in compared):
        yield f"  {unclear:,} more have neither an id nor a URL, and are left out"


async def _compare(
    settings: Settings,
    job_ids: Sequence[str],
    since: datetime | None,
    unknown: Unknown,
    spool: Spool,
    wanted: str | None,
) -> list[Compared]:
    """Compare one job after the other. An error that every job would meet is raised."""
    from receiver.service.client.advice import advise

    async with open_reports(settings) as reports, open_client(settings) as client:
        chosen = [await resolve(reports, one, unknown) for one in job_ids]
        if since is not None:
            chosen += [one.job_id async for one in reports.jobs(JobFilter(since=since))]
        jobs = [Compared(job_id) for job_id in dict.fromkeys(chosen)]
        with progress("compared", len(jobs)) as advance:
            for one in jobs:
                try:
                    found = await delivered(reports, one.job_id)
                    one.missing = await compare(found, events_of(client, found, unknown), spool, wanted=wanted)
                except FOR_ALL as exc:
                    raise ReceiverError(escape_controls(advise(exc))) from exc
                except (ServiceError, NotComparable) as exc:
                    one.problem = advise(exc) if isinstance(exc, ServiceError) else str(exc)
                advance(1)
    return jobs
