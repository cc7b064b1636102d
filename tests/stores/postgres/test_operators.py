"""What operators and imports do beside workers and pruning, in transactions that overlap."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from receiver.core.activity import PruneRule
from receiver.core.bulk import Imported
from receiver.core.claims import Lease
from receiver.core.types import HandlerSwitch, Origin
from receiver.core.work import NewWork
from receiver.errors import StoreError
from receiver.stores.postgres.connection import Translation
from receiver.stores.postgres.statements import LOCK_HANDLERS
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import NOON, delivery, soon, turns
from tests.stores.conftest import open_all
from tests.stores.opened import AFTER, DAY, MUCH, ONE, SKIPPED, WAITING, A, ended
from tests.stores.outside import PostgresTables
from tests.stores.postgres.gate import Gate


@contextmanager
def handler_locked(url: str) -> Iterator[psycopg.Connection[object]]:
    """Hold the lock of a handler, as a transaction of some worker does."""
    tables = PostgresTables(url)
    with tables.connect() as holder:
        holder.execute("BEGIN")
        holder.execute(Translation(tables.schema)(LOCK_HANDLERS).encode(), {"names": [ONE]})
        yield holder
        holder.execute("COMMIT")


async def test_what_comes_after_a_handler_was_switched_on_is_not_skipped(postgres_url: str) -> None:
    """A worker that is about to skip what waited before ends first."""
    gate = Gate(postgres_url, "", "")
    async with open_all(PostgresStore(gate.url)) as opened, PostgresStore(gate.url).queue() as router:
        (before,) = await opened.items(1)
        await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
        await opened.add(delivery("after"))
        batch = await router.routing_batch(limit=9, max_bytes=MUCH)
        work = [NewWork(one.seq, ONE, False, False, None, None) for one in batch.deliveries]

        async def switch_and_route() -> None:
            await opened.controls.switch(ONE, HandlerSwitch.ON)
            await router.route(batch, work, lease=Lease(A, AFTER), now=NOON)

        with handler_locked(postgres_url):
            claiming = asyncio.create_task(opened.claim())
            await gate.until_waiting(1)
            switching = asyncio.create_task(switch_and_route())
            waiting = asyncio.create_task(gate.until_waiting(2))
            await asyncio.wait({switching, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        await soon(asyncio.gather(claiming, switching))

        assert (await opened.work_of("after")).state == WAITING
        assert await opened.states(before) == [SKIPPED]


async def test_a_handler_that_is_switched_on_first_has_nothing_skipped(postgres_url: str) -> None:
    """A worker that waited for the switch looks again."""
    gate = Gate(postgres_url, "INSERT OR UPDATE", "handlers")
    async with open_all(PostgresStore(gate.url)) as opened:
        (work_id,) = await opened.items(1)
        await opened.controls.switch(ONE, HandlerSwitch.DISABLED)
        with gate.closed():
            switching = asyncio.create_task(opened.controls.switch(ONE, HandlerSwitch.ON))
            await gate.until_waiting(1)
            claiming = asyncio.create_task(opened.claimed())
            await asyncio.wait(
                {claiming, waiting := asyncio.create_task(gate.until_waiting(2))},
                return_when=asyncio.FIRST_COMPLETED,
            )
            waiting.cancel()
        await soon(switching)

        assert await soon(claiming) == [work_id]


async def test_whoever_routes_waits_for_a_lane_with_nothing_in_hand_that_settling_needs(postgres_url: str) -> None:
    """Else the two wait for each other, and the server lets both wait a second before it ends one."""
    gate = Gate(postgres_url, "", "")
    async with open_all(PostgresStore(gate.url)) as opened:
        await opened.items(1, lane="a")
        await opened.add(delivery("later"))
        batch = await opened.queue.routing_batch(limit=9, max_bytes=MUCH)
        work = [NewWork(one.seq, ONE, False, False, "a", None) for one in batch.deliveries]
        with handler_locked(postgres_url) as holder:
            routing = asyncio.create_task(opened.queue.route(batch, work, lease=Lease(A, AFTER), now=NOON + DAY))
            await gate.until_waiting(1)
            holder.execute(b"SELECT 1 FROM marks WHERE name = 'latest' FOR UPDATE NOWAIT")
        assert await soon(routing) is not None


async def test_an_import_of_what_is_pruned_at_this_moment_is_an_error_and_works_again(postgres_url: str) -> None:
    """It found the delivery, and then it is gone."""
    gate = Gate(postgres_url, "DELETE", "deliveries")
    async with open_all(PostgresStore(gate.url)) as opened:
        (work_id,) = await opened.items(1, claim=True)
        await opened.settle(ended(work_id))
        again = [Imported(delivery("item-0"), duplicates=0, origin=Origin.IMPORT)]
        with gate.closed():
            pruning = asyncio.create_task(opened.maintenance.prune(PruneRule(AFTER), after=0, limit=9, now=NOON))
            await gate.until_waiting(1)
            importing = asyncio.create_task(opened.controls.import_deliveries(again))
            await gate.until_waiting(2)
        assert (await soon(pruning)).count == 1
        with pytest.raises(StoreError, match="item-0 was pruned at the moment when it came again"):
            await soon(importing)
        await turns()
        assert list(await opened.controls.import_deliveries(again)) == ["accepted"]
