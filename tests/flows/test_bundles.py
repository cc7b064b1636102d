"""Bundles between stores: whatever lies in one comes into another as it was, however often it is interrupted."""

import asyncio
import io
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.bulk import Imported
from receiver.core.deliveries import Delivery, DeliveryFilter, StoredDelivery
from receiver.core.ports.store import Store
from receiver.core.types import AppendOutcome, Origin
from receiver.replay.bundles.format import BundleWriter, Entry, Header, read_bundle
from receiver.stores.memory import MemoryStore
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, appended
from tests.replay.test_bundles import deliveries

SOME = 3
"""Deliveries that are imported at one time."""


def new_store(kind: str, folder: str) -> Store:
    return MemoryStore() if kind == "memory" else SqliteStore(f"sqlite:///{Path(folder) / 'receiver.db'}")


async def arrived(store: Store, arrivals: Iterable[Delivery]) -> None:
    """Let deliveries arrive, as the sender brings them."""
    async with store.log() as log:
        for one in arrivals:
            await appended(log, one)


async def exported(store: Store) -> bytes:
    """Return everything in a store as a bundle."""
    async with store.reports() as reports:
        stored = [one async for one in reports.iter_deliveries(DeliveryFilter())]
    stream = io.BytesIO()
    writer = BundleWriter(stream, Header(made_at=NOON, count=len(stored)), pack=True)
    for one in stored:
        writer.add(one.delivery, one.duplicates)
    writer.finish()
    return stream.getvalue()


async def imported(store: Store, bundle: bytes, *, most: int = 10**9) -> list[AppendOutcome]:
    """Bring in at most so many parts of a bundle; return what became of the deliveries."""
    entries = list(read_bundle(io.BytesIO(bundle), max_body=10_000).entries)
    ones = [Imported(one.delivery, one.duplicates) for one in entries if isinstance(one, Entry)]
    assert len(ones) == len(entries)
    async with store.log():
        pass
    outcomes: list[AppendOutcome] = []
    async with store.controls() as controls:
        for start in range(0, len(ones), SOME)[:most]:
            outcomes += await controls.import_deliveries(ones[start : start + SOME])
    return outcomes


async def content(store: Store) -> list[StoredDelivery]:
    """Return what lies in a store, without where it came from."""
    async with store.reports() as reports:
        found = [one async for one in reports.iter_deliveries(DeliveryFilter())]
    return [one._replace(seq=0, delivery=one.delivery._replace(origin=Origin.SENDER)) for one in found]


@pytest.mark.parametrize("source", ["memory", "sqlite"])
@pytest.mark.parametrize("target", ["memory", "sqlite"])
@settings(max_examples=settings().max_examples // 3)
@given(arrivals=st.lists(deliveries(), max_size=8), parts=st.integers(0, 3))
def test_an_export_of_one_store_is_imported_into_another(
    source: str, target: str, arrivals: list[Delivery], parts: int
) -> None:
    """Every byte, header, moment and count, also when interrupted and started again; the next export is equal."""

    async def there_and_back() -> None:
        with TemporaryDirectory() as first, TemporaryDirectory() as second:
            here, there = new_store(source, first), new_store(target, second)
            await arrived(here, [*arrivals, *arrivals[:2]])
            bundle = await exported(here)

            await imported(there, bundle, most=parts)
            outcomes = await imported(there, bundle)

            assert set(outcomes[: parts * SOME]) <= {AppendOutcome.DUPLICATE}
            assert set(outcomes[parts * SOME :]) <= {AppendOutcome.ACCEPTED}
            assert await content(there) == await content(here)
            assert await exported(there) == bundle

    asyncio.run(there_and_back())
