"""Workers take turns in reading what is new, so that they do not all read the same bodies."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from receiver.core.claims import Lease
from receiver.stores.postgres.queue import PATIENCE, PostgresQueue, RoutingTurn
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import NOON, appended, delivery, soon
from tests.stores.opened import AFTER, MUCH, B
from tests.stores.postgres.test_concurrency import database_of

NOTHING: tuple[str, ...] = ()


class TwoWorkers:
    """Two workers of a store to which deliveries were appended. The second waits for the first so long."""

    def __init__(self, stack: AsyncExitStack, url: str) -> None:
        self._stack, self._store = stack, PostgresStore(url)

    async def start(self, patience: timedelta, *keys: str) -> tuple[PostgresQueue, PostgresQueue]:
        """Append deliveries and return the queues."""
        log = await self._stack.enter_async_context(self._store.log())
        for key in keys:
            await soon(appended(log, delivery(key)))
        queues = [await self._stack.enter_async_context(self._store.queue()) for _ in range(2)]
        first, second = (PostgresQueue(database_of(queue), turn=RoutingTurn(patience)) for queue in queues)
        return first, second


async def keys_for(queue: PostgresQueue, limit: int = 1) -> tuple[str, ...]:
    """Return the keys of the next batch that a worker gets."""
    batch = await queue.routing_batch(limit=limit, max_bytes=MUCH)
    return tuple(one.delivery.key for one in batch.deliveries)


async def test_the_second_worker_gets_the_next_batch_when_the_first_has_routed_its_own(postgres_url: str) -> None:
    """Until then it reads nothing, and the first may read again."""
    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(PATIENCE * 100, "a", "b")
        batch = await first.routing_batch(limit=1, max_bytes=MUCH)

        assert await keys_for(second) == NOTHING
        assert await keys_for(first) == ("a",)
        await first.route(batch, [], lease=Lease(B, AFTER), now=NOON)
        assert await keys_for(second) == ("b",)
        assert await keys_for(first) == NOTHING


async def test_a_worker_that_waits_for_its_turn_asks_often(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others route for a short time, and who asks seldom never sees the moment between two of their turns."""
    pauses: list[float] = []

    async def note(seconds: float, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        pauses.append(seconds)
        await sleep(0)

    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(PATIENCE * 100, "a", "b")
        batch = await first.routing_batch(limit=1, max_bytes=MUCH)
        await second.changed()  # it sees the store for the first time
        assert await keys_for(second) == NOTHING
        monkeypatch.setattr(asyncio, "sleep", note)
        await second.changed()  # it gives up in the end
        assert len(pauses) > 30
        assert max(pauses[:5]) < 0.01

        await first.route(batch, [], lease=Lease(B, AFTER), now=NOON)
        asked = len(pauses)
        await second.changed()
        assert len(pauses) == asked + 1
        pauses.clear()
        assert await keys_for(second) == ("b",)
        await second.changed()  # nobody else routes, so it asks less and less often
        assert len(pauses) < 20


async def test_of_two_workers_that_wait_one_comes_back_for_what_is_new(postgres_url: str) -> None:
    """It has the turn by then, and the other one need not look. The other comes when that one has routed."""
    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(PATIENCE * 100)
        await soon(asyncio.gather(first.changed(), second.changed()))  # they see the store for the first time
        log = await stack.enter_async_context(PostgresStore(postgres_url).log())
        await soon(appended(log, delivery("a")))

        waiting = {asyncio.create_task(one.changed()): one for one in (first, second)}
        (back,), (waits,) = await soon(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))
        assert await keys_for(waiting[waits]) == NOTHING
        batch = await waiting[back].routing_batch(limit=9, max_bytes=MUCH)
        assert [one.delivery.key for one in batch.deliveries] == ["a"]
        await soon(appended(log, delivery("b")))
        await waiting[back].route(batch, [], lease=Lease(B, AFTER), now=NOON)
        await soon(waits)
        assert await keys_for(waiting[waits]) == ("b",)


async def test_a_worker_that_ends_gives_its_turn_back(postgres_url: str) -> None:
    """The other one does not have to wait until its patience ends."""
    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(PATIENCE * 100, "a")
        assert await keys_for(first) == ("a",)
        assert await keys_for(second) == NOTHING

        await first.sign_off(B)
        assert await keys_for(second) == ("a",)


async def test_a_worker_that_waits_sees_a_turn_that_was_given_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back at its next question, though nothing else has changed."""
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(PATIENCE * 100, "a")
        assert await keys_for(first) == ("a",)
        await second.changed()  # it sees the store for the first time
        assert await keys_for(second) == NOTHING
        await first.sign_off(B)

        monkeypatch.setattr(asyncio, "sleep", note)
        await second.changed()
        assert len(pauses) == 1
        assert await keys_for(second) == ("a",)


async def test_a_turn_for_what_another_worker_has_routed_is_given_back(postgres_url: str) -> None:
    """Between its question and its turn the other one may have routed everything."""
    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(PATIENCE * 100, "a")
        batch = await first.routing_batch(limit=1, max_bytes=MUCH)
        await first.route(batch, [], lease=Lease(B, AFTER), now=NOON)
        turn = RoutingTurn(PATIENCE * 100)
        late = PostgresQueue(database_of(second), turn=turn)
        assert await late.database.call(lambda connection: turn.take(connection, routed=0, holder=0))

        assert await keys_for(late) == NOTHING
        log = await stack.enter_async_context(PostgresStore(postgres_url).log())
        await soon(appended(log, delivery("b")))
        assert await keys_for(first) == ("b",)


async def test_a_worker_that_routes_nothing_loses_its_turn(postgres_url: str) -> None:
    """The second one takes it when it sees it a second time, and its patience is at its end."""
    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(timedelta(0), "a")

        assert await keys_for(first) == ("a",)
        assert await keys_for(second) == NOTHING
        assert await keys_for(second) == ("a",)


async def test_a_batch_whose_turn_was_lost_can_be_routed_still(postgres_url: str) -> None:
    """The turn saves work, and the mark decides who routes."""
    async with AsyncExitStack() as stack:
        first, second = await TwoWorkers(stack, postgres_url).start(timedelta(0), "a")
        batch = await first.routing_batch(limit=1, max_bytes=MUCH)
        await keys_for(second)
        again = await second.routing_batch(limit=1, max_bytes=MUCH)

        assert await first.route(batch, [], lease=Lease(B, AFTER), now=NOON) == ()
        assert await second.route(again, [], lease=Lease(B, AFTER), now=NOON) is None
