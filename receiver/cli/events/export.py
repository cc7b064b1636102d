"""`receiver events export`: write events to a file that `receiver events import` reads elsewhere."""

import asyncio
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import click

from receiver.cli.common.filter_options import handled_filter_options, store_option, text
from receiver.cli.common.job_ids import with_whole_job_id
from receiver.cli.common.output import flush, note
from receiver.cli.common.progress import progress
from receiver.cli.common.store import read
from receiver.cli.common.unreadable import UnreadableEvents
from receiver.core.clock import SystemClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, escape_controls
from receiver.errors import ReceiverError
from receiver.replay.bundles.format import Header
from receiver.replay.bundles.redaction import redacted
from receiver.replay.bundles.writing import BundleWriter
from receiver.settings import load_reading_settings
from receiver.stores.sqlite.companions import require_no_database

_STEP = 500


@click.command()
@click.argument("file", default="-", type=text)
@handled_filter_options
@click.option("--redact", is_flag=True, help="Hide the contents of the pages; see above.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@store_option
def export(file: str, wanted: DeliveryFilter, redact: bool, force: bool, store: str | None) -> int:
    """Write events to a file, the oldest first.

    FILE is standard output if it is absent or -. It is a bundle: exact bodies, headers, ids and times, one JSON
    object per line. It is compressed if FILE ends in .gz. It lacks events whose bodies were pruned. FILE appears
    only when everything is written. If the store cannot read some bodies, since a file beside a SQLite database is
    away, the others are exported, and the exit code is 1.

    With --redact you can attach a bundle to a bug report. Each letter of a text in a body becomes an x: in page
    texts, addresses (except https://), titles, errors and values of metadata. So do the values of most headers.
    Digits in extracted data become ones. These stay: names of fields, other numbers, true and false, ids, times,
    event types, and words of the service such as `changed`. Read the file before you share it.
    """
    to_stdout = file == "-"
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal: name a FILE, or use a pipe")
    settings = load_reading_settings(store=store)
    target, unreadable = Path(file), UnreadableEvents()
    with _writing_to_stdout() if to_stdout else _writing_to(target, force=force) as stream:
        count, left_out = read(
            settings,
            lambda reports: _export(
                reports, wanted, stream, unreadable, redact=redact, pack=target.suffix == ".gz"
            ),
        )
    note(f"exported {counted(count, 'event')}" + ("" if to_stdout else f" to {escape_controls(file)}"))
    if left_out:
        note(f"left out {counted(left_out, 'event')}: their bodies were pruned")
    return unreadable.tell()


async def _export(
    reports: Reports,
    wanted: DeliveryFilter,
    stream: IO[bytes],
    unreadable: UnreadableEvents,
    *,
    redact: bool,
    pack: bool,
) -> tuple[int, int]:
    """Write the planned events; return how many, and how many were left out because their bodies were pruned.

    The header also counts events that turn out to be unreadable, so that a reader sees that they are missing.
    """
    wanted = await with_whole_job_id(reports, wanted)
    plan = await reports.plan(wanted)
    count = plan.count - plan.without_body
    header = Header(made_at=SystemClock().now(), count=count, redacted=redact)
    writer = BundleWriter(stream, header, pack=pack)
    try:
        with progress("exported", count) as advance:
            async for stored in reports.iter_deliveries(wanted):
                if writer.count + unreadable.count == count:
                    break  # the rest arrived after the header was written
                if unreadable.leaves_out(stored):
                    continue
                writer.add(redacted(stored.delivery) if redact else stored.delivery, stored.duplicates)
                if writer.count % _STEP == 0:
                    advance(_STEP)
        writer.finish()
    except (KeyboardInterrupt, asyncio.CancelledError):
        note(f"stopped: {writer.count:,} of {counted(count, 'event')} were written")
        raise
    if missing := count - writer.count - unreadable.count:
        raise ReceiverError(
            f"{counted(missing, 'event')} of {count:,} were pruned or changed their state during the "
            "export: export again"
        )
    return writer.count, plan.without_body


@contextmanager
def _writing_to_stdout() -> Iterator[IO[bytes]]:
    yield sys.stdout.buffer
    flush()


@contextmanager
def _writing_to(target: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Give a new file that replaces `target` if the block succeeds, and is deleted if it fails."""
    require_no_database(target)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(target.stat().st_mode):
            raise click.UsageError(f"{escape_controls(str(target))} is not an ordinary file")
        if not force:
            raise click.UsageError(f"{escape_controls(str(target))} exists already: --force replaces it")
    with _naming(str(target)):
        part = NamedTemporaryFile(  # noqa: SIM115 - it is renamed at the end
            dir=target.parent, prefix=f".{target.name}.", suffix=".part", delete=False
        )
        try:
            with part:
                yield part.file
                part.flush()
                os.fsync(part.fileno())
            Path(part.name).replace(target)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Turn an error of writing into one that names the file."""
    try:
        yield
    except OSError as exc:
        raise ReceiverError(f"cannot write {escape_controls(name)}: {exc.strerror or exc}") from exc
