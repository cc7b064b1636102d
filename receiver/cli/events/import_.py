"""`receiver events import`: store the events of a bundle that `receiver events export` wrote elsewhere."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

import click

from receiver.cli.common.confirm import agreed, say, to_its_end
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import plan_options, store_option
from receiver.cli.common.output import note
from receiver.cli.common.progress import progress
from receiver.cli.common.recording import ActionCount, recording
from receiver.cli.common.store import configured_store, decide
from receiver.core.batching import batches
from receiver.core.bulk import Imported
from receiver.core.clock import local_time
from receiver.core.ports.controls import Controls
from receiver.core.text import counted, escape_controls
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.replay.bundles.lines import Damage
from receiver.replay.bundles.reading import Bundle, Entry, read_bundle
from receiver.settings import Settings, load_settings

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
        decide(settings, lambda controls: _recorded(settings, controls, bundle, summary), create=True)
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


def _size_of(one: Imported) -> int:
    return len(one.delivery.body)


async def _recorded(settings: Settings, controls: Controls, bundle: Bundle, summary: ImportSummary) -> None:
    """Store the undamaged events, and record it."""
    about = f"a bundle of {local_time(bundle.header.made_at)}"
    store = configured_store(settings)
    async with recording(controls, store, "import", about, planned=bundle.header.count) as recorded:
        await _import(controls, bundle, summary, recorded)


async def _import(controls: Controls, bundle: Bundle, summary: ImportSummary, recorded: ActionCount) -> None:
    """Store the undamaged events. A stop lets the batch at hand finish."""

    async def step(batch: Sequence[Imported]) -> None:
        outcomes = await controls.import_deliveries(batch)
        summary.add_outcomes(batch, outcomes)
        await recorded.add(seen=len(batch), changed=list(outcomes).count(AppendOutcome.ACCEPTED))

    try:
        with progress("imported", summary.count) as advance:
            for batch in batches(_undamaged(bundle, summary), MAX_ITEMS, MAX_BYTES, _size_of):
                await to_its_end(step(batch))
                advance(len(batch))
    except BaseException:
        note(
            f"stopped: {summary.read:,} of {counted(summary.count, 'event')} were read, "
            f"{summary.outcomes[AppendOutcome.ACCEPTED]:,} imported; the same command goes on with the rest"
        )
        raise


def _say_some(lines: Sequence[str], total: int) -> None:
    for line in lines:
        say(f"  {line}")
    if total > len(lines):
        say(f"  and {total - len(lines):,} more")
