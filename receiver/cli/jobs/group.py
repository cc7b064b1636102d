"""`receiver jobs`: how far each job has come, and each check of a monitor."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from receiver.cli.common.filter_options import job_filter_options, json_option, store_option, text
from receiver.cli.common.output import clock, duration, iso, shown, write_bytes, write_line
from receiver.cli.common.store import read
from receiver.cli.common.tables import Column, Listing
from receiver.cli.jobs.fetch import fetch
from receiver.core.clock import SystemClock
from receiver.core.jobs import JobDetail, JobFilter, JobState, JobSummary, JobWork, warnings
from receiver.core.ports.reports import JobReader
from receiver.core.types import HandlerSwitch, WorkState
from receiver.service.samples import encode
from receiver.settings import load_settings

_STYLES = {JobState.OPEN: "cyan", JobState.FAILED: "red", JobState.CANCELLED: "yellow"}


@click.group()
def jobs() -> None:
    """Look at jobs: what has arrived of them, what handlers have done with it, and what may be wrong.

    A check of a monitor is a job too. Only `fetch` asks the service.
    """


jobs.add_command(fetch)


@jobs.command("list")
@job_filter_options
@json_option
@store_option
def list_(wanted: JobFilter, as_json: bool, store: str | None) -> None:
    """List jobs, the one that was heard of last first.

    --type takes a family too ('crawl'), --state ended any end. --since and --until want the time between a job's
    first and last arrival to touch that span.
    """
    listing = _listing(SystemClock().now())
    settings = load_settings(store=store)
    if as_json:
        read(settings, lambda reports: listing.write_json(reports.jobs(wanted)))
    else:
        read(settings, lambda reports: listing.write(reports.jobs, wanted))


@jobs.command()
@click.argument("job_id", metavar="ID", type=text)
@json_option
@store_option
def show(job_id: str, as_json: bool, store: str | None) -> None:
    """Show all that is known of one job. ID may be shortened to any beginning that only one job has."""
    detail = read(load_settings(store=store), lambda reports: find(reports, job_id))
    now = SystemClock().now()
    if as_json:
        write_bytes(encode(detail_fields(detail, now)) + b"\n")
        return
    for line in readable(detail, now):
        write_line(line)


async def find(reports: JobReader, prefix: str) -> JobDetail:
    """Return the one job whose id begins so, or raise UnknownJob."""
    return await reports.job(await reports.resolve_job(prefix))


def summary_fields(job: JobSummary, now: datetime) -> dict[str, Any]:
    """Return a job as the listing's JSON has it; `warnings` are the words for programs."""
    return {
        "id": job.job_id,
        "family": job.family,
        "state": job.state.value,
        "started": job.started,
        "pages_good": job.good,
        "pages_failed": job.failed,
        "pages_late": job.late,
        "deliveries": job.deliveries,
        "duplicates": job.duplicates,
        "backfilled": job.backfilled,
        "first_at": iso(job.first_at),
        "last_at": iso(job.last_at),
        "ended_by": job.end and job.end.type,
        "ended_at": job.end and iso(job.end.at),
        "end_success": job.end and job.end.success,
        "warnings": [one.code for one in warnings(job, now=now)],
    }


def detail_fields(detail: JobDetail, now: datetime) -> dict[str, Any]:
    """Return a job as the JSON of `jobs show` has it; `warnings` have their sentences too."""
    return summary_fields(detail.summary, now) | {
        "warnings": [{"code": one.code, "text": one.text} for one in warnings(detail.summary, now=now)],
        "arrivals": [
            {
                "type": one.type,
                "success": one.success,
                "count": one.count,
                "duplicates": one.duplicates,
                "backfilled": one.backfilled,
            }
            for one in detail.arrivals
        ],
        "new": detail.new,
        "work": [
            {"handler": one.handler, "switch": one.switch.value, "counts": _counts(one)} for one in detail.work
        ],
    }


def readable(detail: JobDetail, now: datetime) -> Iterator[str]:
    """Yield lines for people, harmless to a terminal: the job, what arrived, the work on it, warnings."""
    job = detail.summary
    fields = summary_fields(job, now)
    del fields["warnings"]
    if job.end is None:
        fields["state"] = f"open since {iso(job.first_at, 'seconds')}, {duration(now - job.first_at)}"
    yield from (f"{name:<13}{shown(_plain(value))}" for name, value in fields.items())
    yield from ("", "arrived")
    for arrived in detail.arrivals:
        again = f"  +{arrived.duplicates} duplicates" if arrived.duplicates else ""
        again += f"  {arrived.backfilled:,} by backfill" if arrived.backfilled else ""
        yield f"  {arrived.count:>9,}  {shown(arrived.type):<24} {_success(arrived.success):<7}{again}".rstrip()
    yield from ("", "work")
    if detail.new:
        yield f"  {detail.new:>9,}  deliveries that no worker has looked at"
    for work in detail.work:
        counts = ", ".join(f"{count:,} {state}" for state, count in _counts(work).items())
        switch = "" if work.switch is HandlerSwitch.ON else f"  ({work.switch.value})"
        yield f"  {shown(work.handler):<40} {counts}{switch}"
    if not detail.work and not detail.new:
        yield "  no work item: no handler wanted any of it"
    if found := warnings(job, now=now):
        yield from ("", "warnings", *(f"  {one.text}" for one in found))


def _counts(work: JobWork) -> dict[str, int]:
    return {state.value: work.counts[state] for state in WorkState if work.counts.get(state)}


def _plain(value: object) -> object:
    """Return a truth value in a word, anything else as it is."""
    return ("yes" if value else "no") if isinstance(value, bool) else value


def _success(success: bool | None) -> str:
    return "-" if success is None else "ok" if success else "failed"


def _number(number: int | None) -> str:
    return "-" if number is None else str(number)


def _listing(now: datetime) -> Listing[JobSummary]:
    """Return how jobs are listed; what may be wrong with them depends on the time."""

    def warned(job: JobSummary) -> str:
        return " ".join(one.code for one in warnings(job, now=now))

    columns: tuple[Column[JobSummary], ...] = (
        Column(
            "last (UTC)", lambda job: iso(job.last_at, "seconds"), 20, 14, in_table=lambda job: clock(job.last_at)
        ),
        Column("family", lambda job: job.family, 12, 12),
        Column("job", lambda job: job.job_id, 36, 13, most=36),
        Column("state", lambda job: job.state.value, 9, 9),
        Column("good", lambda job: _number(job.good), 7, 6, right=True),
        Column("failed", lambda job: _number(job.failed), 7, 6, right=True),
        Column("dup.", lambda job: f"+{job.duplicates}" if job.duplicates else "-", 5, 5, rank=3, right=True),
        Column(
            "first (UTC)",
            lambda job: iso(job.first_at, "seconds"),
            20,
            14,
            rank=2,
            in_table=lambda job: clock(job.first_at),
        ),
        Column("started", lambda job: str(_plain(job.started)) if job.started is not None else "-", 7, 7, rank=4),
        Column("backfilled", lambda job: _number(job.backfilled or None), 10, 10, rank=3, right=True),
        Column("warnings", warned, 0, 12, rank=1, most=40),
    )
    return Listing(
        "job",
        columns,
        lambda job: summary_fields(job, now),
        lambda job: "bold" if warned(job) else _STYLES.get(job.state, ""),
    )
