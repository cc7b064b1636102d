"""`receiver events export` and `import`: a bundle of events, written here and read elsewhere."""

import asyncio
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import click

from receiver.cli.common.confirm import agreed, say, to_its_end
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import handled_filter_options, plan_options, store_option, text, with_whole_job_id
from receiver.cli.common.output import flush, note, progress
from receiver.cli.common.store import UnreadableEvents, configured_store, decide, read, recording
from receiver.core.batches import batches
from receiver.core.bulk import Imported
from receiver.core.clock import SystemClock, local_time
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls
from receiver.core.text import counted, escape_controls
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import ReceiverError
from receiver.replay.bundles.format import Bundle, BundleWriter, Damage, Entry, Header, read_bundle
from receiver.replay.bundles.redaction import redacted
from receiver.settings import Settings, load_reading_settings, load_settings
from receiver.stores.sqlite.system_files import require_no_database

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
    with nullcontext(sys.stdout.buffer) if to_stdout else _writing_to(target, force=force) as stream:
        count, left_out = read(
            settings,
            lambda reports: _export(
                reports, wanted, stream, unreadable, redact=redact, pack=target.suffix == ".gz"
            ),
        )
    flush()
    note(f"exported {counted(count, 'event')}" + ("" if to_stdout else f" to {escape_controls(file)}"))
    if left_out:
        note(f"left out {counted(left_out, 'event')}: their bodies were pruned")
    return unreadable.report()


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
def _writing_to(target: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Give a new file that replaces `target` if the block succeeds, and is deleted if it fails."""
    require_no_database(target)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(target.stat().st_mode):
            raise click.UsageError(f"{escape_controls(str(target))} is not an ordinary file")
        if not force:
            raise click.UsageError(f"{escape_controls(str(target))} exists already: --force replaces it")
    try:
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
    except OSError as exc:
        raise ReceiverError(f"cannot write {escape_controls(str(target))}: {exc.strerror or exc}") from exc


MAX_ITEMS = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Events, and bytes of their bodies, that one transaction stores."""
_SHOWN = 10


@click.command("import")
@click.argument("file", type=click.File("rb"))
@plan_options
@store_option
def import_(file: IO[bytes], yes: bool, dry_run: bool, store: str | None) -> int:
    """Store the events of a bundle, for you to look at and to replay.

    FILE may be compressed, or - for standard input. The events keep their ids and times. No worker handles them;
    `receiver replay` does. Events that are stored already are not changed, so you can import a file again. A
    damaged line is reported and skipped. --dry-run reads the whole file, checks every checksum, and changes no
    store.
    """
    settings = load_settings(store=store)
    bundle = read_bundle(file, max_body=settings.max_body)
    for line in _plan(bundle):
        say(line)
    summary = ImportSummary(bundle.header.count)
    if dry_run:
        for _ in _undamaged(bundle, summary):
            pass
        say(f"{counted(summary.whole, 'event')} can be imported")
    elif agreed(f"Import {counted(bundle.header.count, 'event')}?", yes=yes):
        decide(settings, lambda controls: _import(settings, controls, bundle, summary), create=True)
        say(f"imported {counted(summary.outcomes[AppendOutcome.ACCEPTED], 'event')}")
        if known := summary.outcomes[AppendOutcome.DUPLICATE]:
            say(f"{counted(known, 'event')} stored already")
    else:
        return FAILED
    return summary.report()


@dataclass(slots=True)
class ImportSummary:
    """What became of the events of a bundle so far, in flat memory."""

    count: int
    whole: int = 0
    read: int = 0
    outcomes: Counter[AppendOutcome] = field(default_factory=Counter)
    conflicts: list[DeliveryKey] = field(default_factory=list)
    damaged: int = 0
    damages: list[Damage] = field(default_factory=list)

    def add_damage(self, damage: Damage) -> None:
        """Count a damaged place, and keep the first few to show."""
        self.damaged += 1
        if len(self.damages) < _SHOWN:
            self.damages.append(damage)

    def add_outcomes(self, batch: Sequence[Imported], outcomes: Sequence[AppendOutcome]) -> None:
        """Count what became of a batch, and keep the ids of conflicts."""
        self.read += len(batch)
        self.outcomes.update(outcomes)
        for one, outcome in zip(batch, outcomes, strict=True):
            if outcome is AppendOutcome.CONFLICT and len(self.conflicts) < _SHOWN:
                self.conflicts.append(one.delivery.key)

    def report(self) -> int:
        """Say what was not imported; return the exit code."""
        conflicting = self.outcomes[AppendOutcome.CONFLICT]
        if conflicting:
            say(f"{counted(conflicting, 'conflict')}: the store keeps another body with the same id")
            _say_some([escape_controls(key) for key in self.conflicts], conflicting)
        if self.damaged:
            say(f"{counted(self.damaged, 'damaged place')}")
            _say_some([f"line {one.line}: {escape_controls(one.reason)}" for one in self.damages], self.damaged)
        return FAILED if conflicting or self.damaged else OK


def _plan(bundle: Bundle) -> Iterator[str]:
    header = bundle.header
    yield f"{counted(header.count, 'event')} to import"
    yield f"  exported  {local_time(header.made_at)}"
    if header.redacted:
        yield "  redacted  the contents of the pages are hidden"


def _undamaged(bundle: Bundle, summary: ImportSummary) -> Iterator[Imported]:
    """Yield the events of the undamaged lines, and count all lines."""
    for entry in bundle.entries:
        if isinstance(entry, Entry):
            summary.whole += 1
            yield Imported(entry.delivery, entry.duplicates)
        else:
            summary.add_damage(entry)


async def _import(settings: Settings, controls: Controls, bundle: Bundle, summary: ImportSummary) -> None:
    """Store the undamaged events, and record it. A stop lets the current batch finish."""

    async def step(batch: Sequence[Imported]) -> None:
        outcomes = await controls.import_deliveries(batch)
        summary.add_outcomes(batch, outcomes)
        await recorded.add(seen=len(batch), changed=list(outcomes).count(AppendOutcome.ACCEPTED))

    about, store = f"a bundle of {local_time(bundle.header.made_at)}", configured_store(settings)
    try:
        async with recording(controls, store, "import", about, planned=summary.count) as recorded:
            with progress("imported", summary.count) as advance:
                for batch in batches(
                    _undamaged(bundle, summary), MAX_ITEMS, MAX_BYTES, lambda one: len(one.delivery.body)
                ):
                    await to_its_end(step(batch))
                    advance(len(batch))
    except BaseException:
        note(
            f"stopped: {summary.read:,} of {counted(summary.count, 'event')} were read, "
            f"{summary.outcomes[AppendOutcome.ACCEPTED]:,} imported; the same command continues with the rest"
        )
        raise


def _say_some(lines: Sequence[str], total: int) -> None:
    for line in lines:
        say(f"  {line}")
    if total > len(lines):
        say(f"  and {total - len(lines):,} more")
