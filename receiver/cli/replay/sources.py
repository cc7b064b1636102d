"""A bundle as a store: its events in a temporary database, so that every filter and order works."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from receiver.cli.common.output import note
from receiver.cli.common.progress import progress
from receiver.cli.common.store import store_at
from receiver.core.batching import batches
from receiver.core.bulk import Imported
from receiver.core.ports.store import Store
from receiver.core.text import counted, escape_controls
from receiver.errors import ConfigurationError, NoBundle
from receiver.replay.bundles.reading import Bundle, Entry, read_bundle

MAX_ITEMS = 500
MAX_BYTES = 4 * 1024 * 1024
"""Events, and bytes of their bodies, that one transaction stores."""


@asynccontextmanager
async def opened_bundle(path: Path, *, max_body: int) -> AsyncIterator[Store]:
    """Give a store with the undamaged events of a bundle, and report damaged lines.

    Raises NoBundle, ConfigurationError if the file cannot be opened, and ReceiverError if it cannot be read.
    """
    shown = escape_controls(str(path))
    with tempfile.TemporaryDirectory(prefix="receiver-replay-") as folder, ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            bundle = read_bundle(file, max_body=max_body)
        except NoBundle as exc:
            raise NoBundle(f"{shown}: {exc}") from None
        except OSError as exc:
            raise ConfigurationError(f"cannot read {shown}: {exc.strerror}") from exc
        store = store_at(Path(folder) / "bundle.db")
        async with store.log():
            pass  # this makes the database
        async with store.controls() as controls:
            with progress("reading", bundle.header.count) as advance:
                for batch in batches(_undamaged(bundle, shown), MAX_ITEMS, MAX_BYTES, _size_of):
                    await controls.import_deliveries(batch)
                    advance(len(batch))
        yield store


def _undamaged(bundle: Bundle, shown: str) -> Iterator[Imported]:
    """Yield the undamaged events, and report the damaged places."""
    damaged = 0
    for entry in bundle.entries:
        if isinstance(entry, Entry):
            yield Imported(entry.delivery, entry.duplicates)
        else:
            damaged += 1
            note(f"{shown}, line {entry.line}: {escape_controls(entry.reason)}")
    if damaged:
        note(f"{counted(damaged, 'damaged place')}; the other events are replayed")


def _size_of(one: Imported) -> int:
    return len(one.delivery.body)
