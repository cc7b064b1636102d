"""The contract of the feed, for readers that follow new deliveries."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.activity import MINUTE
from receiver.core.deliveries import Delivery, DeliveryFilter
from receiver.core.types import DeliveryState
from receiver.errors import StoreError
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, delivery, soon
from tests.stores.opened import DEAD, DONE, HELD, ONE, QUEUED, RUNNING, SKIPPED, TWO, WAITING, Opened, ended

ALL = DeliveryFilter()


async def arrived(opened: Opened, wanted: DeliveryFilter, after: int, limit: int = 100) -> tuple[str, int]:
    """Return the keys, which have one letter each, and the last seq that was examined."""
    found = await opened.reports.since(wanted, after=after, limit=limit)
    return "".join(one.key for one in found.deliveries), found.through


async def test_what_arrived_comes_oldest_first(opened: Opened) -> None:
    """They come behind a place, as many as asked for."""
    await opened.add(*[delivery(key) for key in "abcd"])

    assert await arrived(opened, ALL, 0) == ("abcd", 4)
    assert await arrived(opened, ALL, 1, limit=2) == ("bc", 3)
    assert await arrived(opened, ALL, 3, limit=2) == ("d", 4)
    assert await arrived(opened, ALL, 4) == ("", 4)
    assert await arrived(opened, ALL, 9) == ("", 9)


async def test_arrivals_are_counted_by_minute(opened: Opened) -> None:
    """The counts are the same before and after a store has summed them up, and in between."""

    async def counted(since: timedelta = -MINUTE) -> list[tuple[int, int]]:
        counts = await opened.reports.arrivals(NOON + since)
        return sorted(((minute - NOON) // MINUTE, count) for minute, count in counts.items())

    def some(name: str, number: int, seconds: int) -> list[Delivery]:
        moment = NOON + timedelta(seconds=seconds)
        return [delivery(f"{name}{one}", received_at=moment) for one in range(number)]

    await opened.add(*some("a", 300, 0), *some("b", 20, 59), *some("c", 7, 60))
    assert await counted() == [(0, 320), (1, 7)]
    await opened.route(ONE, claim=False)
    assert await counted() == [(0, 320), (1, 7)]
    await opened.add(*some("d", 400, 61), *some("e", 3, 1), *some("f", 1, 185))
    await opened.route(ONE, claim=False)
    assert await counted() == [(0, 323), (1, 407), (3, 1)]
    assert await counted(since=timedelta(seconds=119)) == [(1, 407), (3, 1)]


async def test_deliveries_that_do_not_match_are_examined_too(opened: Opened) -> None:
    """A reader of a rare kind then does not begin at the same place again."""
    await opened.add(*[delivery(key, kind="crawl.page" if key == "c" else "odd") for key in "abcd"])

    assert await arrived(opened, DeliveryFilter(type="crawl.*"), 0, limit=2) == ("", 2)
    assert await arrived(opened, DeliveryFilter(type="crawl.*"), 2, limit=2) == ("c", 4)
    assert await arrived(opened, DeliveryFilter(job_id="no"), 0) == ("", 4)


async def test_each_delivery_is_as_in_a_listing(opened: Opened) -> None:
    """It has its duplicates and its present state."""
    await opened.add(delivery("a"), delivery("a"))
    await opened.route(ONE)

    found = await opened.reports.since(ALL, after=0, limit=9)

    assert list(found.deliveries) == await opened.listed()
    assert (found.deliveries[0].state, found.deliveries[0].duplicates) == (DeliveryState.WORKING, 1)


async def test_those_with_known_places_are_found_again(opened: Opened) -> None:
    """They are in their present state, the oldest first. Those that are gone or do not match are left out."""
    await opened.add(*[delivery(key, kind="odd" if key == "b" else "crawl.page") for key in "abc"])
    await opened.route(ONE)

    found = await opened.reports.by_seqs(DeliveryFilter(type="crawl.*"), [3, 2, 1, 9])

    assert list(found) == [one for one in reversed(await opened.listed()) if one.key != "b"]
    assert [one.key for one in await opened.reports.by_seqs(DeliveryFilter(state=DeliveryState.DONE), [1, 2])] == []
    assert list(await opened.reports.by_seqs(ALL, [])) == []


async def test_the_newest_that_are_not_finished_are_known(opened: Opened) -> None:
    """Each is returned once, whatever the states of its work."""
    for state in (DONE, DEAD, SKIPPED, WAITING, HELD, RUNNING):
        await opened.in_state(state)
    await opened.in_state(QUEUED)
    await opened.add(delivery("new"))

    assert list(await opened.reports.open_seqs(limit=9)) == [9, 8, 7, 6, 5, 4]
    assert list(await opened.reports.open_seqs(limit=2)) == [9, 8]


async def test_a_delivery_with_two_open_items_is_known_once(opened: Opened) -> None:
    """The feed returns deliveries and not their work items."""
    await opened.add(delivery("a"))
    await opened.route(ONE, TWO)

    assert list(await opened.reports.open_seqs(limit=9)) == [1]


async def test_a_reader_is_woken_by_what_is_appended(opened: Opened) -> None:
    """It wakes after a wait, and also for deliveries that came before the call."""
    await opened.add(delivery("before"))
    await soon(opened.reports.changed())

    for key in ("a", "b"):
        waiting = asyncio.create_task(opened.reports.changed())
        await opened.add(delivery(key))
        await soon(waiting)
    await opened.add(delivery("c"))
    await soon(opened.reports.changed())


async def test_a_reader_is_woken_by_what_a_worker_does(opened: Opened) -> None:
    """Routing and settling change the states of deliveries."""
    await opened.add(delivery("a"))
    await soon(opened.reports.changed())

    waiting = asyncio.create_task(opened.reports.changed())
    (item,) = await opened.route(ONE)
    await soon(waiting)
    waiting = asyncio.create_task(opened.reports.changed())
    await opened.settle(ended(item, DONE))
    await soon(waiting)


@pytest.mark.parametrize("swapped", [False, True])
async def test_a_file_that_was_moved_away_is_noticed(sqlite_store: SqliteStore, path: Path, swapped: bool) -> None:
    """Nobody would write to the old file again, and a file in its place is another store."""
    async with sqlite_store.log(), sqlite_store.reports() as reports:
        await soon(reports.changed())
        await asyncio.to_thread(path.rename, path.with_name("moved.db"))
        if swapped:
            await asyncio.to_thread(path.touch)

        with pytest.raises(StoreError, match=r"receiver\.db was moved or deleted"):
            await soon(reports.changed())
