"""Long bodies in files beside a SQLite database."""

import random
from pathlib import Path

from receiver.core.types import DeliveryKey
from receiver.stores.sql.columns_of_bodies import MIN_BYTES
from tests.doubles import body_of
from tests.stores.opened import MUCH, Opened
from tests.stores.rows import select

PLAIN, DEFLATED, BESIDE = 0, 1, 2
LONG = body_of(text="some words of a page " * 2_000)
NOISE = random.Random(1).randbytes(3 * MIN_BYTES)


def codings(path: Path) -> dict[str, int]:
    """Return how each body is stored."""
    return dict(select(path, "SELECT d.key, b.coding FROM deliveries AS d JOIN bodies AS b USING (seq)"))


async def body(opened: Opened, key: str = "k") -> bytes | None:
    """Return the body of a delivery, as it is shown."""
    return (await opened.reports.detail(DeliveryKey(key))).body


async def unreadable(opened: Opened, key: str) -> str:
    """Return why the body of a delivery cannot be read."""
    detail = await opened.reports.detail(DeliveryKey(key))
    assert detail.body is None
    return detail.unreadable


async def move(opened: Opened) -> None:
    """Route what is new, and move the bodies into the database."""
    await opened.route()
    await opened.maintenance.compress(limit=1_000)


async def reclaim(opened: Opened) -> None:
    """Give back all unused room."""
    while await opened.maintenance.reclaim(MUCH):
        pass


def kind_of_file(path: Path) -> str:
    """Return what a file beside the database is: its bodies, or the end of its name."""
    return "bodies" if "-bodies-" in path.name else path.name.removeprefix("receiver.db")
