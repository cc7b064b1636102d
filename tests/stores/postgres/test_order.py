"""Numbers grow in the order of commits, so that a reader that goes by them misses no delivery."""

import asyncio
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from receiver.core.claims import Lease
from receiver.core.deliveries import DeliveryFilter
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import NOON, appended, delivery, soon
from tests.stores.opened import MUCH, A
from tests.stores.outside import PostgresTables
from tests.stores.postgres.gate import Gate

LEASE = Lease(A, NOON)


async def test_no_cursor_passes_a_transaction_that_is_still_open(postgres_url: str) -> None:
    """The second writer gets its number when the first one has committed, and not before."""
    gate = Gate(postgres_url, "INSERT", "deliveries")
    store = PostgresStore(gate.url)
    async with store.log() as log, store.log() as other, store.queue() as queue:
        with gate.closed():
            first = appended(log, delivery("first"))
            await gate.until_waiting(1)
            second = appended(other, delivery("second"))
            await gate.until_waiting(2)
            assert (await queue.routing_batch(limit=9, max_bytes=MUCH)).deliveries == ()
        await soon(asyncio.gather(first, second))

        batch = await queue.routing_batch(limit=9, max_bytes=MUCH)
        assert [one.delivery.key for one in batch.deliveries] == ["first", "second"]


async def test_whoever_inserts_without_the_lock_is_passed_by(postgres_url: str) -> None:
    """So the test above can fail."""
    store = PostgresStore(postgres_url)
    row = "INSERT INTO deliveries (key, type, received_at, size) VALUES ('first', 'crawl.page', 0, 1)"
    async with store.log() as log, store.queue() as queue:
        with PostgresTables(postgres_url).connect() as stranger:
            stranger.execute(f"BEGIN; {row}".encode())
            await soon(appended(log, delivery("second")))
            batch = await queue.routing_batch(limit=9, max_bytes=MUCH)
            assert [one.delivery.key for one in batch.deliveries] == ["second"]
            await queue.route(batch, [], lease=LEASE, now=NOON)
            stranger.execute(b"COMMIT")

        assert (await queue.routing_batch(limit=9, max_bytes=MUCH)).deliveries == ()


async def test_a_transaction_that_stays_open_elsewhere_stops_nobody(postgres_url: str) -> None:
    """In this database, and in another one of the server, which share the numbers of transactions."""
    tables = PostgresTables(postgres_url)
    name = f"other_{tables.schema}"
    tables.run(f"CREATE DATABASE {name}")
    elsewhere = PostgresTables(urlsplit(postgres_url)._replace(path=f"/{name}").geturl())
    store = PostgresStore(postgres_url)
    try:
        async with store.log() as log, store.reports() as reports:
            with tables.connect() as here, elsewhere.connect() as there:
                here.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()")
                there.execute(b"BEGIN; CREATE TABLE public.open (a integer)")
                await soon(appended(log, delivery("seen")))
                page = await reports.since(DeliveryFilter(), after=0, limit=9)
                assert [one.key for one in page.deliveries] == ["seen"]
    finally:
        tables.run(f"DROP DATABASE {name}")


async def test_a_reader_beside_four_writers_sees_every_delivery_once_and_in_order(postgres_url: str) -> None:
    """It follows as fast as it can while they append as fast as they can."""
    store = PostgresStore(postgres_url)
    count = 200
    async with AsyncExitStack() as stack:
        logs = [await stack.enter_async_context(store.log()) for _ in range(4)]
        reports = await stack.enter_async_context(store.reports())
        seen: list[str] = []

        async def follow() -> None:
            place = 0
            while len(seen) < 4 * count:
                page = await reports.since(DeliveryFilter(), after=place, limit=50)
                seen.extend(one.key for one in page.deliveries)
                place = page.through

        async def write(number: int) -> None:
            for at in range(0, count, 10):
                keys = [f"{number}-{at + more}" for more in range(10)]
                await asyncio.gather(*[appended(logs[number], delivery(key)) for key in keys])

        await soon(asyncio.gather(follow(), *[write(number) for number in range(4)]))

    assert sorted(seen) == sorted(f"{number}-{at}" for number in range(4) for at in range(count))
