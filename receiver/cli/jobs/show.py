"""`receiver jobs show`: everything that is known of one job."""

from collections.abc import Iterator
from datetime import datetime

import click

from receiver.cli.common.filter_options import json_option, store_option, text
from receiver.cli.common.output import duration, shown, with_local_times, write_json, write_line, yes_or_no
from receiver.cli.common.store import configured_store, now_of, read
from receiver.core.clock import local_time
from receiver.core.jobs import JobArrivals, JobDetail, JobWork, warnings
from receiver.core.ports.reports import Reports
from receiver.core.types import HandlerSwitch
from receiver.core.views import job_detail, job_summary, job_work_counts
from receiver.settings import load_reading_settings


@click.command()
@click.argument("job_id", metavar="ID", type=text)
@json_option
@store_option
def show(job_id: str, as_json: bool, store: str | None) -> None:
    """Show everything that is known of one job.

    ID may be shortened to any beginning that only one job has.
    """
    settings = load_reading_settings(store=store)

    async def report(reports: Reports) -> tuple[JobDetail, datetime]:
        return await _find(reports, job_id), await now_of(configured_store(settings))

    detail, now = read(settings, report)
    if as_json:
        write_json(job_detail(detail, now))
        return
    for line in readable(detail, now):
        write_line(line)


async def _find(reports: Reports, prefix: str) -> JobDetail:
    """Return the one job whose id begins with the prefix, or raise UnknownJob."""
    return await reports.job(await reports.resolve_job(prefix))


def readable(detail: JobDetail, now: datetime) -> Iterator[str]:
    """Yield lines for people, safe for a terminal: the job, its events, the work on it, warnings."""
    job = detail.summary
    fields = with_local_times(job_summary(job, now))
    del fields["warnings"]
    if job.end is None:
        fields["state"] = f"open since {local_time(job.first_at)}, {duration(now - job.first_at)}"
    for name, value in fields.items():
        yield f"{name:<16}{yes_or_no(value) if isinstance(value, bool) else shown(value)}"
    yield from ("", "arrived", *map(_arrival_line, detail.arrivals))
    yield from ("", "work")
    if detail.new:
        yield f"  {detail.new:>9,}  deliveries that no worker has looked at"
    yield from map(_work_line, detail.work)
    if not detail.work and not detail.new:
        yield "  no work item: no handler matched"
    if found := warnings(job, now=now):
        yield from ("", "warnings", *(f"  {one.text}" for one in found))


def _arrival_line(arrived: JobArrivals) -> str:
    more = f"  +{arrived.duplicates} duplicates" if arrived.duplicates else ""
    more += f"  {arrived.backfilled:,} by backfill" if arrived.backfilled else ""
    success = "-" if arrived.success is None else "ok" if arrived.success else "failed"
    return f"  {arrived.count:>9,}  {shown(arrived.type):<24} {success:<7}{more}".rstrip()


def _work_line(work: JobWork) -> str:
    counts = ", ".join(f"{count:,} {state}" for state, count in job_work_counts(work).items())
    status = "" if work.switch is HandlerSwitch.ON else f"  ({work.switch.value})"
    return f"  {shown(work.handler):<40} {counts}{status}"
