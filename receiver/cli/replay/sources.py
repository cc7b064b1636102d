"""A bundle as a store: its events in a temporary database, so that every filter and order works."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from receiver.cli.common.output import note
from receiver.cli.common.progress import progress
from receiver.cli.common.store import store_at
from receiver.core.bulk import Imported
from receiver.core.ports.store import Store
from receiver.core.text import counted, escape_controls
from receiver.errors import NoBundle
from receiver.replay.bundles.reading import Entry, read_bundle

MAX_ITEMS = 500


@asynccontextmanager
async def opened_bundle(path: Path, *, max_body: int) -> AsyncIterator[Store]:
    """Give a store with the undamaged events of a bundle, and report damaged lines. Raises NoBundle."""
    with tempfile.TemporaryDirectory(prefix="receiver-replay-") as folder, path.open("rb") as file:
        try:
            bundle = read_bundle(file, max_body=max_body)
        except NoBundle as exc:
            raise NoBundle(f"{escape_controls(str(path))}: {exc}") from None
        store = store_at(Path(folder) / "bundle.db")
        async with store.log():
            pass  # this makes the database
        damaged = 0
        async with store.controls() as controls:
            gathered: list[Imported] = []
            with progress("reading", bundle.header.count) as advance:
                for entry in bundle.entries:
                    if isinstance(entry, Entry):
                        gathered.append(Imported(entry.delivery, entry.duplicates))
                    else:
                        damaged += 1
                        note(f"{escape_controls(str(path))}, line {entry.line}: {escape_controls(entry.reason)}")
                    if len(gathered) == MAX_ITEMS:
                        await controls.import_deliveries(gathered)
                        advance(len(gathered))
                        gathered.clear()
                await controls.import_deliveries(gathered)
        if damaged:
            note(f"{counted(damaged, 'damaged place')}; the other events are replayed")
        yield store
