"""`receiver jobs fetch`: the results of a job, into the store or as files."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import click

from receiver.cli.common.confirm import say, to_its_end
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import store_option, text
from receiver.cli.common.output import note, quoted
from receiver.cli.common.progress import progress
from receiver.cli.common.recording import recording
from receiver.cli.common.service_calls import open_client
from receiver.cli.common.service_jobs import Unknown, arrived, events_of, unknown_options
from receiver.cli.common.store import clock_of, configured_store, open_controls, open_reports
from receiver.core.bulk import Imported
from receiver.core.text import counted, escape_controls
from receiver.core.types import AppendOutcome, Origin
from receiver.errors import ConfigurationError, NotComparable, ReceiverError, ServiceError
from receiver.replay.backfill.comparing import Missing, Spool, compare, to_import
from receiver.service.samples import encode
from receiver.settings import Settings, load_settings

T = TypeVar("T")


@click.command()
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
    --job ID`); no worker handles them.
    `receiver backfill` imports the same events for your handlers; after a fetch it finds none. Both commands may be
    repeated, and compare pages by scrape id or URL.

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
        stored = asyncio.run(_import(settings, missing, spool)) if missing.count else 0
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
            return await compare(found, _counted(events_of(client, found, unknown), advance), spool)


async def _counted(events: AsyncIterator[T], advance: Callable[[int], None]) -> AsyncIterator[T]:
    async for event in events:
        advance(1)
        yield event


async def _import(settings: Settings, missing: Missing, spool: Spool) -> int:
    """Store the missing events; return how many. A stop lets the batch at hand finish."""
    stored = 0

    async def step(part: Sequence[Imported]) -> None:
        nonlocal stored
        new = list(await controls.import_deliveries(part)).count(AppendOutcome.ACCEPTED)
        stored += new
        await recorded.add(seen=len(part), changed=new)

    about, store = f"results of job {missing.job_id}", configured_store(settings)
    try:
        async with (
            open_controls(settings, create=True) as controls,
            open_reports(settings) as reports,
            clock_of(store) as clock,
            recording(controls, store, "fetch", about, planned=missing.count) as recorded,
        ):
            with progress("stored", missing.count) as advance:
                async for part in to_import(missing, spool, reports, clock, origin=Origin.IMPORT):
                    await to_its_end(step(part))
                    advance(len(part))
    except BaseException:
        note(
            f"stopped: {stored:,} of {counted(missing.count, 'event')} stored; "
            "the same command goes on with the rest"
        )
        raise
    return stored


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
        with suppress(OSError):  # it has documents, or somebody else uses it
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
