"""`receiver jobs list`: one line for each job."""

from datetime import datetime

import click

from receiver.cli.common.columns import NOTHING, Column, job_column, moment_column
from receiver.cli.common.filter_options import job_list_options, store_option
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.names import hint
from receiver.cli.common.output import yes_or_no
from receiver.cli.common.store import configured_store, now_of, read
from receiver.cli.common.tables import ListForm, Listing, form_options
from receiver.core.clock import SystemClock
from receiver.core.jobs import JobFilter, JobState, JobSummary, warnings
from receiver.core.ports.reports import Reports
from receiver.core.text import counted
from receiver.core.views import job_summary
from receiver.settings import load_reading_settings

_STYLES = {JobState.OPEN: "cyan", JobState.FAILED: "red", JobState.CANCELLED: "yellow"}


@click.command("list")
@job_list_options
@form_options(lambda: _listing(SystemClock().now()).columns)
@store_option
def list_(wanted: JobFilter, form: ListForm, store: str | None) -> None:
    """List jobs, the one with the newest event first.

    --type also takes a family ('crawl'). --state ended means completed, failed or cancelled. --since and --until
    choose the jobs that had events in that time, or before and after it.
    """

    settings = load_reading_settings(store=store)

    async def report(reports: Reports) -> None:
        chosen = await with_whole_job_id(reports, wanted)
        now = await now_of(configured_store(settings))
        await _listing(now).write(reports.jobs, chosen, form, lambda wanted: hint(reports, wanted))

    read(settings, report)


def _number(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def _duplicates(job: JobSummary) -> str:
    return f"+{job.duplicates}" if job.duplicates else NOTHING


def _failed_below(job: JobSummary) -> str | None:
    return f"{counted(job.failed, 'page')} failed" if job.failed else None


def _duplicates_below(job: JobSummary) -> str | None:
    return counted(job.duplicates, "duplicate") if job.duplicates else None


def _listing(now: datetime) -> Listing[JobSummary]:
    """Return how to list jobs; their warnings depend on the time."""

    def codes(job: JobSummary) -> str:
        return " ".join(one.code for one in warnings(job, now=now)) or NOTHING

    def told(job: JobSummary) -> str | None:
        return " ".join(one.text for one in warnings(job, now=now)) or None

    columns: tuple[Column[JobSummary], ...] = (
        moment_column("last", lambda job: job.last_at),
        Column("family", lambda job: job.family, 12, 7, most=16),
        job_column(lambda job: job.job_id),
        Column("state", lambda job: job.state.value, 9, 9),
        Column("succeeded", lambda job: _number(job.good), 9, 9, right=True),
        Column("failed", lambda job: _number(job.failed), 7, 6, rank=1, right=True, below=_failed_below),
        Column("duplicates", _duplicates, 10, 10, rank=2, right=True, below=_duplicates_below),
        Column("backfilled", lambda job: _number(job.backfilled or None), 10, 10, rank=3, right=True),
        moment_column("first", lambda job: job.first_at, rank=4),
        Column("started", lambda job: NOTHING if job.started is None else yes_or_no(job.started), 7, 7, rank=5),
        Column("warnings", codes, 0, 12, rank=1, most=40, below=told),
    )
    return Listing(
        "job",
        columns,
        lambda job: job_summary(job, now),
        lambda job: "bold" if warnings(job, now=now) else _STYLES.get(job.state, ""),
    )
