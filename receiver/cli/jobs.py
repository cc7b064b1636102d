"""`receiver jobs`: jobs as the store knows them, and the two commands that ask the service about one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from receiver.cli.common.confirm import say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import hint, job_list_options, json_option, store_option, text, with_whole_job_id
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import (
    duration,
    note,
    progress,
    quoted,
    shown,
    with_local_times,
    write_json,
    write_line,
    yes_or_no,
)
from receiver.cli.common.service import (
    Unknown,
    arrived,
    ask,
    events_of,
    family_option,
    import_missing,
    open_client,
    resolve,
    unknown_options,
    whole_job_id,
)
from receiver.cli.common.store import configured_store, now_of, open_reports, read
from receiver.cli.common.tables import NOTHING, Column, ListForm, Listing, form_options, job_column, moment_column
from receiver.core.clock import SystemClock, local_time
from receiver.core.jobs import JobArrivals, JobDetail, JobFilter, JobState, JobSummary, JobWork, warnings
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, escape_controls
from receiver.core.types import HandlerSwitch, Origin
from receiver.core.views import job_detail, job_summary, job_work_counts
from receiver.errors import ConfigurationError, NotComparable, ReceiverError, ServiceError, UnknownJob
from receiver.replay.backfill.comparing import Missing, Spool, compare
from receiver.service.samples import encode
from receiver.settings import Settings, load_reading_settings, load_settings

if TYPE_CHECKING:  # it loads httpx
    from receiver.service.client import AsyncClient

_STYLES = {JobState.OPEN: "cyan", JobState.FAILED: "red", JobState.CANCELLED: "yellow"}


@click.group(cls=CommandGroup)
def jobs() -> None:
    """Look at jobs: their events, the work on them, and warnings.

    A check of a monitor is a job too. Only `fetch` and `cancel` call the service.
    """


@jobs.command("list")
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


def _listing(now: datetime) -> Listing[JobSummary]:
    """Return how to list jobs; their warnings depend on the time."""

    def codes(job: JobSummary) -> str:
        return " ".join(one.code for one in warnings(job, now=now)) or NOTHING

    def texts(job: JobSummary) -> str | None:
        return " ".join(one.text for one in warnings(job, now=now)) or None

    columns: tuple[Column[JobSummary], ...] = (
        moment_column("last", lambda job: job.last_at),
        Column("family", lambda job: job.family, 12, 7, most=16),
        job_column(lambda job: job.job_id),
        Column("state", lambda job: job.state.value, 9, 9),
        Column("succeeded", lambda job: _number(job.good), 9, 9, right=True),
        Column(
            "failed",
            lambda job: _number(job.failed),
            7,
            6,
            rank=1,
            right=True,
            below=lambda job: f"{counted(job.failed, 'page')} failed" if job.failed else None,
        ),
        Column(
            "duplicates",
            lambda job: f"+{job.duplicates}" if job.duplicates else NOTHING,
            10,
            10,
            rank=2,
            right=True,
            below=lambda job: counted(job.duplicates, "duplicate") if job.duplicates else None,
        ),
        Column("backfilled", lambda job: _number(job.backfilled or None), 10, 10, rank=3, right=True),
        moment_column("first", lambda job: job.first_at, rank=4),
        Column("started", lambda job: NOTHING if job.started is None else yes_or_no(job.started), 7, 7, rank=5),
        Column("warnings", codes, 0, 12, rank=1, most=40, below=texts),
    )
    return Listing(
        "job",
        columns,
        lambda job: job_summary(job, now),
        lambda job: "bold" if warnings(job, now=now) else _STYLES.get(job.state, ""),
    )


@jobs.command()
@click.argument("job_id", metavar="ID", type=text)
@json_option
@store_option
def show(job_id: str, as_json: bool, store: str | None) -> None:
    """Show everything that is known of one job.

    ID may be shortened to any beginning that only one job has.
    """
    settings = load_reading_settings(store=store)

    async def report(reports: Reports) -> tuple[JobDetail, datetime]:
        return await reports.job(await reports.resolve_job(job_id)), await now_of(configured_store(settings))

    detail, now = read(settings, report)
    if as_json:
        write_json(job_detail(detail, now))
        return
    for line in readable(detail, now):
        write_line(line)


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
        yield f"  {detail.new:>9,}  deliveries that are not routed yet"
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


@jobs.command()
@click.argument("job_id", metavar="ID", type=text)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write each document to a file 000001.json in this new or empty folder, not to the store.",
)
@unknown_options
@store_option
def fetch(job_id: str, folder: Path | None, unknown: Unknown, store: str | None) -> int:
    """Ask the service for the results of a job, and store them.

    Results that are stored already are skipped. The others are for you to look at and to replay (`receiver replay
    --job ID`); no worker handles them. `receiver backfill` imports the same events for your handlers; after a fetch
    it finds nothing new. Both commands may be repeated, and compare pages by scrape id or URL.

    With --to the documents become files. A document is a page as the service has it, the result of an extraction or
    of an agent, or a page of a check. Needs RECEIVER_API_KEY.
    """
    settings = load_settings(store=store)
    settings.plain_api_key()  # a missing key is an error before anything is opened
    if folder is None:
        return _into_store(settings, job_id, unknown)
    with _made(folder):
        written, failed = asyncio.run(_to_files(settings, job_id, folder, unknown))
    say(f"wrote {counted(written, 'document')} to {escape_controls(str(folder))}")
    if failed:
        say(f"{counted(failed, 'page')} failed, and {'has' if failed == 1 else 'have'} no document")
    return OK if written else FAILED


def _into_store(settings: Settings, job_id: str, unknown: Unknown) -> int:
    with Spool() as spool:
        try:
            missing = asyncio.run(_compare(settings, job_id, unknown, spool))
        except KeyboardInterrupt:
            note("stopped: nothing was changed")
            raise
        about, stored = f"results of job {missing.job_id}", 0
        if missing.count:
            importing = import_missing(
                settings, [missing], spool, verb="fetch", about=about, done="stored", origin=Origin.IMPORT
            )
            stored = asyncio.run(importing).total()
    say(
        f"{counted(missing.produced, 'event')} of job {escape_controls(missing.job_id)}: "
        f"{stored:,} new and stored, {missing.produced - stored - missing.unclear:,} stored before"
    )
    if missing.unclear:
        say(f"{missing.unclear:,} of them were left out: they have neither an id nor a URL")
    if stored:
        note(f"no worker handles them; next: receiver replay --job {quoted(missing.job_id)}")
    return OK


async def _compare(settings: Settings, job_id: str, unknown: Unknown, spool: Spool) -> Missing:
    """Put the events that the store lacks into the spool."""
    found = await arrived(settings, job_id, unknown, partly=False)
    async with open_client(settings) as client:
        with progress("asked for", None) as advance, _advising(found.job_id):

            async def events() -> AsyncIterator[dict[str, Any]]:
                async for event in events_of(client, found, unknown):
                    advance(1)
                    yield event

            return await compare(found, events(), spool)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder for a block; if the block writes nothing there, remove what was made."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty: name a new folder, or empty it first")
    except OSError as exc:
        raise ConfigurationError(f"cannot use {folder}: {exc.strerror}") from exc
    try:
        yield
    finally:
        with suppress(OSError):  # it has documents, or another program uses it
            for one in missing:
                one.rmdir()


async def _to_files(settings: Settings, job_id: str, folder: Path, unknown: Unknown) -> tuple[int, int]:
    """Write every document to its own file; return how many there are, and how many pages failed."""
    written = failed = 0
    found = await arrived(settings, job_id, unknown, partly=True)
    async with open_client(settings) as client:
        with progress("fetched", None) as advance, _advising(found.job_id):
            try:
                async for event in events_of(client, found, unknown):
                    failed += event["type"].endswith(".page") and not event["success"]
                    if not event["success"] or not event["data"]:
                        continue
                    written += 1
                    (folder / f"{written:06}.json").write_bytes(encode(event["data"][0]) + b"\n")
                    advance(1)
            except OSError as exc:
                raise ReceiverError(f"cannot write to {folder}: {exc.strerror}") from exc
            except BaseException as exc:
                if written or not isinstance(exc, ReceiverError):
                    note(f"stopped: wrote {counted(written, 'document')} to {escape_controls(str(folder))}")
                raise
    return written, failed


@contextmanager
def _advising(job_id: str) -> Iterator[None]:
    """Turn an error of the service into one that says what to do."""
    from receiver.service.client.advice import advise

    try:
        yield
    except ServiceError as exc:
        raise ReceiverError(escape_controls(advise(exc))) from exc
    except NotComparable as exc:
        raise ReceiverError(f"job {escape_controls(job_id)}: {escape_controls(str(exc))}") from exc


_CANCEL: Mapping[str, Callable[["AsyncClient", str], Awaitable[None]]] = {
    "crawl": lambda client, job_id: client.cancel_crawl(job_id),
    "batch_scrape": lambda client, job_id: client.cancel_batch(job_id),
    "agent": lambda client, job_id: client.cancel_agent(job_id),
}
"""The operation that cancels a job, by its family. The service has none for the others."""


@jobs.command()
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
    found, kind = asyncio.run(_find_to_cancel(settings, job_id, family))
    if kind not in _CANCEL:
        raise click.UsageError(
            f"{escape_controls(found)} is of the family {escape_controls(kind)}, and the service cancels only "
            f"{', '.join(_CANCEL)}"
        )
    ask(settings, lambda client: _CANCEL[kind](client, found))
    say(f"cancelled {kind} {escape_controls(found)}")


async def _find_to_cancel(settings: Settings, prefix: str, family: str | None) -> tuple[str, str]:
    """Return id and family of the one job with this prefix; by `family` if none of its events arrived."""
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
