"""Events in two stores and in bundles, and `receiver events` as a user runs it."""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from receiver.cli.main import receiver, run
from receiver.core.bulk import Imported
from receiver.core.deliveries import DeliveryFilter, StoredDelivery
from receiver.core.types import Origin
from receiver.stores import open_store
from tests.cli.kept import STORE, delivery

OTHER = "sqlite:///other.db"


def invoke(*args: str) -> int:
    return run(receiver.main, ["events", *args])


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "receiver", "events", *args]


def keep_many(count: int, size: int = 0) -> None:
    """Put many deliveries into the store, with bodies of random text."""

    async def import_deliveries() -> None:
        async with open_store(STORE).log():
            pass
        async with open_store(STORE).controls() as controls:
            await controls.import_deliveries(
                [
                    Imported(delivery(f"k{n:05}", n / 60_000, body=os.urandom(size // 2).hex().encode()))
                    for n in range(count)
                ]
            )

    asyncio.run(import_deliveries())


def stored(store: str = STORE) -> list[StoredDelivery]:
    """Return what a store has, in its order, without the difference between imported and received events."""

    async def read() -> list[StoredDelivery]:
        async with open_store(store).reports() as reports:
            return [
                one._replace(seq=0, delivery=one.delivery._replace(origin=Origin.SENDER))
                async for one in reports.iter_deliveries(DeliveryFilter())
            ]

    return asyncio.run(read()) if Path(store.removeprefix("sqlite:///")).exists() else []


def execute(statement: str, database: str = "other.db") -> None:
    """Change a database from outside."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(statement)


def deliveries_of(bundle: str) -> bytes:
    """Return a bundle without its header, which tells when it was made."""
    return Path(bundle).read_bytes().partition(b"\n")[2]
