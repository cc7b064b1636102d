"""A bundle as a store: its events in a temporary database, so that every filter and order works."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """A store with the undamaged events of a bundle, and whether others are damaged."""

    store: Store
    is_damaged: bool


@asynccontextmanager
async def opened_bundle(path: Path, *, max_body: int) -> AsyncIterator[OpenedBundle]:
    """Give the undamaged events of a bundle, and report damaged lines.

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
                undamaged = _Undamaged(bundle, shown)
                for batch in batches(undamaged, MAX_ITEMS, MAX_BYTES, _size_of):
                    await controls.import_deliveries(batch)
                    advance(len(batch))
        yield OpenedBundle(store, is_damaged=undamaged.damaged > 0)


class _Undamaged:
    """The undamaged events. Going through them reports and counts the damaged places."""

    def __init__(self, bundle: Bundle, shown: str) -> None:
        self.damaged = 0
        self._bundle = bundle
        self._shown = shown

    def __iter__(self) -> Iterator[Imported]:
        for entry in self._bundle.entries:
            if isinstance(entry, Entry):
                yield Imported(entry.delivery, entry.duplicates)
            else:
                self.damaged += 1
                note(f"{self._shown}, line {entry.line}: {escape_controls(entry.reason)}")
        if self.damaged:
            note(f"{counted(self.damaged, 'damaged place')}; the other events are replayed")


def _size_of(one: Imported) -> int:
    return len(one.delivery.body)
