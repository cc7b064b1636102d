"""`receiver events import`: bring in what `receiver events export` has written elsewhere."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

import click

from receiver.cli.common.confirm import agreed, say, to_its_end
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import plan_options, store_option
from receiver.cli.common.output import iso, note
from receiver.cli.common.progress import progress
from receiver.cli.common.store import decide
from receiver.core.batching import batches
from receiver.core.bulk import Imported
from receiver.core.ports.controls import Controls
from receiver.core.text import counted, escape_controls
from receiver.core.types import AppendOutcome, DeliveryKey
from receiver.errors import ReceiverError
from receiver.replay.bundles.lines import Damage
from receiver.replay.bundles.reading import Bundle, Entry, read_bundle
from receiver.settings import load_settings

MAX_ITEMS = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Deliveries and bytes of bodies that are handed to the store together."""
_SHOWN = 10


@click.command("import")
@click.argument("file", type=click.File("rb"))
@plan_options
@store_option
def import_(file: IO[bytes], yes: bool, dry_run: bool, store: str | None) -> int:
    """Bring deliveries of a bundle into the store: FILE, packed or not, or - for standard input.

    They come with their own keys and times, as stored ones to look at and to replay; no worker handles them by
    itself. What is stored already stays as it is, so the same file can be imported again and again. A line that is
    damaged is passed over and told. --dry-run reads everything, checks every sum, and touches no store.
    """
    settings = load_settings(store=store)
    bundle = read_bundle(file, max_body=settings.max_body)
    for line in _plan(bundle):
        say(line)
    tally = ImportSummary(bundle.header.count)
    if dry_run:
        for _ in _whole(bundle, tally):
            pass
        say(f"{counted(tally.whole, 'delivery')} can be imported")
    elif agreed(f"Import {counted(bundle.header.count, 'delivery')}?", yes=yes):
        decide(settings, lambda controls: _bring_in(controls, bundle, tally), create=True)
        say(f"imported {counted(tally.outcomes[AppendOutcome.ACCEPTED], 'delivery')}")
        if known := tally.outcomes[AppendOutcome.DUPLICATE]:
            say(f"{counted(known, 'delivery')} stored already")
    else:
        return FAILED
    return tally.report()


@dataclass(slots=True)
class ImportSummary:
    """What has come of a bundle so far, in as much memory for one delivery as for millions."""

    count: int
    whole: int = 0
    looked_at: int = 0
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
        self.looked_at += len(batch)
        self.outcomes.update(outcomes)
        for one, outcome in zip(batch, outcomes, strict=True):
            if outcome is AppendOutcome.CONFLICT and len(self.conflicts) < _SHOWN:
                self.conflicts.append(one.delivery.key)

    def report(self) -> int:
        """Say what was not brought in; return the exit code."""
        conflicting = self.outcomes[AppendOutcome.CONFLICT]
        if conflicting:
            say(f"{counted(conflicting, 'conflict')}: another body is stored under the same id, and stays")
            _say_some([escape_controls(key) for key in self.conflicts], conflicting)
        if self.damaged:
            say(f"{counted(self.damaged, 'damaged place')}")
            _say_some([f"line {one.line}: {escape_controls(one.reason)}" for one in self.damages], self.damaged)
        return FAILED if conflicting or self.damaged else OK


def _plan(bundle: Bundle) -> Iterator[str]:
    header = bundle.header
    yield f"{counted(header.count, 'delivery')} to import"
    yield f"  exported  {iso(header.made_at, 'seconds')}"
    if header.redacted:
        yield "  redacted  what was on the pages is hidden"


def _whole(bundle: Bundle, tally: ImportSummary) -> Iterator[Imported]:
    """Yield the deliveries of the undamaged lines."""
    try:
        for entry in bundle.entries:
            if isinstance(entry, Entry):
                tally.whole += 1
                yield Imported(entry.delivery, entry.duplicates)
            else:
                tally.add_damage(entry)
    except OSError as exc:
        raise ReceiverError(f"cannot read on: {exc.strerror or exc}") from exc


def _size_of(one: Imported) -> int:
    return len(one.delivery.body)


async def _bring_in(controls: Controls, bundle: Bundle, tally: ImportSummary) -> None:
    """Bring in everything that is whole. A part that has begun is finished when we are asked to stop."""

    async def step(batch: Sequence[Imported]) -> None:
        tally.add_outcomes(batch, await controls.import_deliveries(batch))

    try:
        with progress("imported", tally.count) as advance:
            for batch in batches(_whole(bundle, tally), MAX_ITEMS, MAX_BYTES, _size_of):
                await to_its_end(step(batch))
                advance(len(batch))
    except BaseException:
        note(
            f"stopped: {tally.looked_at:,} of {counted(tally.count, 'delivery')} were looked at, "
            f"{tally.outcomes[AppendOutcome.ACCEPTED]:,} imported; the same command goes on with the rest"
        )
        raise


def _say_some(lines: Sequence[str], total: int) -> None:
    for line in lines:
        say(f"  {line}")
    if total > len(lines):
        say(f"  and {total - len(lines):,} more")
