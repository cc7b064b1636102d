"""`receiver jobs fetch`: what a job found, as files."""

import asyncio
from pathlib import Path

import click

from receiver.app import open_reports
from receiver.backfill.comparing import delivered
from receiver.cli.main import FAILED, OK
from receiver.cli.options import store_option, text
from receiver.cli.output import counted, harmless
from receiver.cli.plans import say
from receiver.cli.progress import progress
from receiver.cli.service import open_client
from receiver.cli.service_jobs import Unknown, events_of, resolve, unknown_options
from receiver.errors import ConfigurationError, NotComparable, ReceiverError, ServiceError
from receiver.samples import encode
from receiver.settings import Settings, load_settings


@click.command()
@click.argument("job_id", metavar="ID", type=text)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="A new or empty folder: one file 000001.json for each document.",
)
@unknown_options
@store_option
def fetch(job_id: str, folder: Path, unknown: Unknown, store: str | None) -> int:
    """Ask the service for everything that a job found, and write it to files.

    A document is a page as the service has it, the result of an extraction or an agent, or a page of a check. The
    store is only looked at to know what ID is. To bring into it what is missing there, use `receiver backfill`.
    Needs RECEIVER_API_KEY.
    """
    settings = load_settings(store=store)
    settings.plain_api_key()  # what is missing is said before anything is opened
    _make(folder)
    written, failed = asyncio.run(_fetch(settings, job_id, folder, unknown))
    say(f"wrote {counted(written, 'document')} to {harmless(str(folder))}")
    if failed:
        say(f"{counted(failed, 'page')} failed, and {'has' if failed == 1 else 'have'} no document")
    return OK if written else FAILED


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty: name a new folder, or empty it first")
    except OSError as exc:
        raise ConfigurationError(f"cannot use {folder}: {exc.strerror}") from exc


async def _fetch(settings: Settings, job_id: str, folder: Path, unknown: Unknown) -> tuple[int, int]:
    """Write every document to a file of its own; return how many there are, and how many pages failed."""
    from receiver.client.advice import advise

    written = failed = 0
    async with open_reports(settings) as reports, open_client(settings) as client:
        found = await delivered(reports, await resolve(reports, job_id, unknown), partly=True)
        with progress("fetched", None) as advance:
            try:
                async for event in events_of(client, found, unknown):
                    failed += event["type"].endswith(".page") and not event["success"]
                    if not event["success"] or not event["data"]:
                        continue
                    written += 1
                    (folder / f"{written:06}.json").write_bytes(encode(event["data"][0]) + b"\n")
                    advance(1)
            except ServiceError as exc:
                raise ReceiverError(harmless(advise(exc))) from exc
            except NotComparable as exc:
                raise ReceiverError(f"job {harmless(found.job_id)}: {harmless(str(exc))}") from exc
            except OSError as exc:
                raise ReceiverError(f"cannot write to {folder}: {exc.strerror}") from exc
    return written, failed
