"""`receiver events export`: write deliveries to a file that `receiver events import` brings in elsewhere."""

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

from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filter_options import handled_filter_options, store_option, text
from receiver.cli.common.output import flush, note
from receiver.cli.common.progress import progress
from receiver.cli.common.store import read
from receiver.core.clock import SystemClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import DeliveryReader
from receiver.core.text import counted, escape_controls
from receiver.errors import ReceiverError
from receiver.replay.bundles.format import Header
from receiver.replay.bundles.redaction import redacted
from receiver.replay.bundles.writing import BundleWriter
from receiver.settings import load_settings

_STEP = 500


@click.command()
@click.argument("file", default="-", type=text)
@handled_filter_options
@click.option("--redact", is_flag=True, help="Put stand-ins in place of what was on the pages; see above.")
@click.option("--force", is_flag=True, help="Replace FILE if there is one.")
@store_option
def export(file: str, wanted: DeliveryFilter, redact: bool, force: bool, store: str | None) -> int:
    """Write deliveries to FILE, or to standard output, the oldest first: a bundle.

    A bundle holds exact bodies, headers, keys and times, one JSON object per line, and is packed if FILE ends in
    .gz. What was pruned is not in it. FILE appears once it is complete.

    With --redact a bundle can go with a bug report. Every text in a body becomes as many letters x: page texts,
    addresses (but for https://), titles, errors, values of metadata; so do the values of all headers but those
    about content, and digits in what was extracted become ones. What stays: names of fields, other numbers, true
    and false, ids, times, event types, and the service's own words such as `changed`. Look before you share.
    """
    to_stdout = file == "-"
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal: name a FILE, or send it through a pipe")
    settings = load_settings(store=store)
    target = Path(file)
    with _writing_to_stdout() if to_stdout else _writing_to(target, force=force) as stream:
        count, left_out = read(
            settings, lambda reports: _export(reports, wanted, stream, redact=redact, pack=target.suffix == ".gz")
        )
    note(f"exported {counted(count, 'delivery')}" + ("" if to_stdout else f" to {escape_controls(file)}"))
    if left_out:
        note(f"{counted(left_out, 'delivery')} left out, whose bodies were pruned")
    return OK


async def _export(
    reports: DeliveryReader, wanted: DeliveryFilter, stream: IO[bytes], *, redact: bool, pack: bool
) -> tuple[int, int]:
    """Write what was planned; return how many that were, and how many have no body any more."""
    plan = await reports.plan(wanted)
    count = plan.count - plan.without_body
    header = Header(made_at=SystemClock().now(), count=count, redacted=redact)
    writer = BundleWriter(stream, header, pack=pack)
    try:
        with progress("exported", count) as advance:
            async for stored in reports.iter_deliveries(wanted):
                if writer.count == count:
                    break  # what has come since the header was written
                writer.add(redacted(stored.delivery) if redact else stored.delivery, stored.duplicates)
                if writer.count % _STEP == 0:
                    advance(_STEP)
        writer.finish()
    except (KeyboardInterrupt, asyncio.CancelledError):
        note(f"stopped: {writer.count:,} of {counted(count, 'delivery')} were written")
        raise
    if writer.count < count:
        raise ReceiverError(
            f"{counted(count - writer.count, 'delivery')} of {count:,} were pruned or changed their state while "
            "this ran: export again"
        )
    return count, plan.without_body


@contextmanager
def _writing_to_stdout() -> Iterator[IO[bytes]]:
    yield sys.stdout.buffer
    flush()


@contextmanager
def _writing_to(target: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Give a new file that takes the place of `target` if the block ends well, and is gone if it does not."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(target.stat().st_mode):
            raise click.UsageError(f"{escape_controls(str(target))} is no ordinary file")
        if not force:
            raise click.UsageError(f"{escape_controls(str(target))} is there already: --force replaces it")
    with _told(str(target)):
        part = NamedTemporaryFile(  # noqa: SIM115 - it is renamed in the end
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
def _told(name: str) -> Iterator[None]:
    """Turn an error of writing into one that says what could not be written."""
    try:
        yield
    except OSError as exc:
        raise ReceiverError(f"cannot write {escape_controls(name)}: {exc.strerror or exc}") from exc
