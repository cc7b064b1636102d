"""`receiver jobs list`: one line for each job."""

from datetime import datetime

import click

from receiver.cli.common.filter_options import job_filter_options, json_option, store_option
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.output import yes_or_no
from receiver.cli.common.store import read
from receiver.cli.common.tables import Column, Listing, moment_column
from receiver.core.clock import SystemClock
from receiver.core.jobs import JobFilter, JobState, JobSummary, warnings
from receiver.core.ports.reports import Reports
from receiver.core.views import job_summary
from receiver.settings import load_settings

_STYLES = {JobState.OPEN: "cyan", JobState.FAILED: "red", JobState.CANCELLED: "yellow"}


@click.command("list")
@job_filter_options
@json_option
@store_option
def list_(wanted: JobFilter, as_json: bool, store: str | None) -> None:
    """List jobs, the one with the newest event first.

    --type also takes a family ('crawl'). --state ended means completed, failed or cancelled. --since and --until
    choose the jobs that had events in that time, or before and after it.
    """

    async def report(reports: Reports) -> None:
        chosen = await with_whole_job_id(reports, wanted)
        await _listing(SystemClock().now()).write(reports.jobs, chosen, as_json=as_json)

    read(load_settings(store=store), report)


def _number(number: int | None) -> str:
    return "-" if number is None else str(number)


def _listing(now: datetime) -> Listing[JobSummary]:
    """Return how to list jobs; their warnings depend on the time."""

    def codes(job: JobSummary) -> str:
        return " ".join(one.code for one in warnings(job, now=now))

    columns: tuple[Column[JobSummary], ...] = (
        moment_column("last", lambda job: job.last_at),
        Column("family", lambda job: job.family, 12, 12),
        Column("job_id", lambda job: job.job_id, 36, 13, most=36),
        Column("state", lambda job: job.state.value, 9, 9),
        Column("succeeded", lambda job: _number(job.good), 9, 9, right=True),
        Column("failed", lambda job: _number(job.failed), 7, 6, right=True),
        Column("duplicates", lambda job: f"+{job.duplicates}" if job.duplicates else "-", 10, 10, 0, 3, right=True),
        moment_column("first", lambda job: job.first_at, rank=2),
        Column("started", lambda job: "-" if job.started is None else yes_or_no(job.started), 7, 7, rank=4),
        Column("backfilled", lambda job: _number(job.backfilled or None), 10, 10, rank=3, right=True),
        Column("warnings", codes, 0, 12, rank=1, most=40),
    )
    return Listing(
        "job",
        columns,
        lambda job: job_summary(job, now),
        lambda job: "bold" if codes(job) else _STYLES.get(job.state, ""),
    )
