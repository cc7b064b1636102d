"""Several connections at the same time. What one writer at a time makes impossible on SQLite, locks do here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from receiver.core.claims import ClaimLimits, HandlerClaim, Lease
from receiver.core.ports.queue import WorkQueue
from receiver.core.types import WorkerId
from receiver.core.work import Hold, NewWork
from receiver.stores.postgres.database import PostgresDatabase
from receiver.stores.postgres.dialect import WRITES, writes
from receiver.stores.postgres.queue import PostgresQueue
from receiver.stores.postgres.store import PostgresStore
from receiver.stores.sql.dialect import Locks
from receiver.stores.sql.writes import Writes
from tests.doubles import NOON, appended, delivery, soon
from tests.stores.conftest import open_all
from tests.stores.opened import (
    AFTER,
    DAY,
    DEAD,
    DONE,
    LEASE,
    MUCH,
    ONE,
    QUEUED,
    SECOND,
    WAITING,
    A,
    B,
    Opened,
    ended,
)
from tests.stores.outside import PostgresTables
from tests.stores.postgres.gate import Gate

UNLOCKED = writes(Locks())


@asynccontextmanager
async def workers(gate: Gate, count: int, by: Writes = WRITES) -> AsyncIterator[tuple[Opened, list[PostgresQueue]]]:
    """Open a store, and queues of so many workers."""
    store = PostgresStore(gate.url)
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_all(store))
        queues = [await stack.enter_async_context(store.queue()) for _ in range(count)]
        yield opened, [PostgresQueue(database_of(queue), writes=by) for queue in queues]


def database_of(queue: WorkQueue) -> PostgresDatabase:
    """Return what a queue writes to."""
    assert isinstance(queue, PostgresQueue)
    assert isinstance(queue.database, PostgresDatabase)
    return queue.database


@pytest.fixture
def gate(postgres_url: str) -> Gate:
    """Workers stop when they have changed work items, before they commit."""
    return Gate(postgres_url, "INSERT OR UPDATE", "work_items")


async def test_a_log_has_one_connection_however_many_append(gate: Gate, postgres_url: str) -> None:
    """A web process takes no more from the server than that, also while it is slow."""
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = current_schema()"
    async with PostgresStore(gate.url).log() as log:
        with PostgresTables(postgres_url).connect() as stranger:
            stranger.execute(b"BEGIN; LOCK TABLE deliveries")
            appends = [appended(log, delivery(str(number))) for number in range(300)]
            await gate.until_waiting(1)
            assert stranger.execute(sessions.encode()).fetchone() == (1,)
        await soon(asyncio.gather(*appends))
        assert PostgresTables(postgres_url).select(sessions) == [(1,)]


# --- limits


async def claimed_at_once(gate: Gate, by: Writes, claimant: HandlerClaim) -> int:
    """Return how many items six workers claim whose transactions overlap."""
    async with workers(gate, 6, by) as (opened, queues):
        await opened.items(30)
        with gate.closed():
            claims = [
                asyncio.create_task(
                    queue.claim(
                        [claimant],
                        ClaimLimits(5, MUCH),
                        lease=Lease(WorkerId(f"w{n}"), AFTER),
                        now=NOON,
                    )
                )
                for n, queue in enumerate(queues)
            ]
            await gate.until_waiting(6)
        return sum(len(one) for one in await asyncio.gather(*claims))


async def test_workers_together_keep_the_limit_of_a_handler(gate: Gate) -> None:
    """Six of them count at the same time."""
    assert await claimed_at_once(gate, WRITES, HandlerClaim(ONE, concurrency=5)) == 5


async def test_without_the_lock_each_would_take_as_many_as_the_limit(gate: Gate) -> None:
    """So the test above can fail."""
    assert await claimed_at_once(gate, UNLOCKED, HandlerClaim(ONE, concurrency=5)) == 30


async def test_workers_together_keep_the_rate_of_a_handler(gate: Gate) -> None:
    """One attempt a day may begin."""
    assert await claimed_at_once(gate, WRITES, HandlerClaim(ONE, interval=DAY)) == 1


async def test_without_the_lock_each_would_begin_one_attempt(gate: Gate) -> None:
    """So the test above can fail."""
    assert await claimed_at_once(gate, UNLOCKED, HandlerClaim(ONE, interval=DAY)) == 6


async def test_no_item_is_claimed_twice(gate: Gate) -> None:
    """Without a limit nobody waits for anybody: each skips what another one has locked."""
    assert await claimed_at_once(gate, WRITES, HandlerClaim(ONE)) == 30


# --- lanes


async def state_behind_a_head_that_ends(postgres_url: str, by: Writes) -> str:
    """Return the state of an item that is made while the head of its lane ends."""
    gate = Gate(postgres_url, "INSERT", "work_items")
    async with workers(gate, 2, by) as (opened, (router, settler)):
        (head,) = await opened.items(1, claim=True, lane="a")
        await opened.add(delivery("second"))
        batch = await router.routing_batch(limit=9, max_bytes=MUCH)
        work = [NewWork(one.seq, ONE, False, False, "a", None) for one in batch.deliveries]
        with gate.closed():
            routing = asyncio.create_task(router.route(batch, work, lease=Lease(B, AFTER), now=NOON))
            await gate.until_waiting(1)
            settling = asyncio.create_task(settler.settle([ended(head)]))
            await (gate.until_waiting(2) if by is WRITES else soon(settling))
        await asyncio.gather(routing, settling)
        return (await opened.work_of("second")).state


async def test_an_item_that_is_made_while_its_head_ends_becomes_the_head(postgres_url: str) -> None:
    """Else it would wait behind nothing for ever."""
    assert await state_behind_a_head_that_ends(postgres_url, WRITES) == WAITING


async def test_without_the_lock_it_would_wait_for_ever(postgres_url: str) -> None:
    """So the test above can fail."""
    assert await state_behind_a_head_that_ends(postgres_url, UNLOCKED) == QUEUED


async def test_an_operator_and_a_worker_do_not_free_a_lane_twice(gate: Gate) -> None:
    """One buries the dead head that stops its lane, and the other takes a third item out of its hold."""
    async with workers(gate, 1) as (opened, (queue,)):
        (head,) = await opened.items(1, claim=True, lane="a")
        await opened.settle(ended(head, DEAD, error="no", holds_lane=True))
        (queued,) = await opened.items(1, lane="a")
        (held,) = await opened.items(1, lane="a", hold=Hold(NOON, AFTER))
        with gate.closed():
            burying = asyncio.create_task(opened.controls.bury([head], "no", now=NOON))
            await gate.until_waiting(1)
            releasing = asyncio.create_task(queue.release(held, now=NOON, note=""))
            await gate.until_waiting(2)
        await asyncio.gather(burying, releasing)
        await opened.check_lanes()
        assert await opened.states(head, queued, held) == [DEAD, WAITING, QUEUED]


# --- routing, leases, once keys


async def test_a_lost_lease_is_taken_back_once(gate: Gate) -> None:
    """Several workers look at the same time, and its own worker settles it a moment too late."""
    async with workers(gate, 3) as (opened, (late, *others)):
        (work_id,) = await opened.items(1, claim=True)
        with gate.closed():
            claims = [
                asyncio.create_task(
                    queue.claim([HandlerClaim(ONE)], ClaimLimits(5, MUCH), lease=Lease(B, AFTER + LEASE), now=AFTER)
                )
                for queue in others
            ]
            await gate.until_waiting(1)
            settling = asyncio.create_task(late.settle([ended(work_id)]))
            await gate.until_waiting(2)
        claimed = [item.attempt for one in await asyncio.gather(*claims) for item in one]

        assert await settling == [False]
        assert claimed == [2]
        assert [one.outcome for one in await opened.history(work_id)] == ["lost"]


async def test_what_is_settled_is_not_taken_back(gate: Gate) -> None:
    """The worker ends its attempt a moment before another one finds the lease at its end."""
    async with workers(gate, 2) as (opened, (own, other)):
        (work_id,) = await opened.items(1, claim=True)
        with gate.closed():
            settling = asyncio.create_task(own.settle([ended(work_id)]))
            await gate.until_waiting(1)
            lease = Lease(B, AFTER + LEASE)
            claimed = await other.claim([HandlerClaim(ONE)], ClaimLimits(5, MUCH), lease=lease, now=AFTER)
        assert await settling == [True]
        assert claimed == []
        assert await opened.states(work_id) == [DONE]


async def test_who_gives_leases_back_locks_items_before_the_latest_moment(gate: Gate, postgres_url: str) -> None:
    """As all others do: a claim that takes the same items back would wait for it, and it for the claim."""
    tables = PostgresTables(postgres_url)
    async with workers(gate, 1) as (opened, (queue,)):
        (work_id,) = await opened.items(1, claim=True)
        with tables.connect() as other:
            other.execute(f"BEGIN; SELECT 1 FROM work_items WHERE id = {work_id} FOR UPDATE".encode())
            releasing = asyncio.create_task(queue.release_leases([work_id], A, now=AFTER))
            await gate.until_waiting(1)
            other.execute(b"SELECT 1 FROM marks WHERE name = 'latest' FOR UPDATE NOWAIT; ROLLBACK")
        await soon(releasing)
        assert await opened.states(work_id) == [WAITING]


async def test_of_sixteen_that_ask_at_a_time_one_is_the_first(gate: Gate) -> None:
    """Whoever asks meanwhile waits for the answer of the first."""
    async with workers(gate, 16) as (_, queues):
        answers = await asyncio.gather(*[queue.once(ONE, "key", now=NOON) for queue in queues])

    assert sorted(answers) == [False] * 15 + [True]


# --- operators


async def test_transactions_that_wait_for_each_other_are_run_again(gate: Gate, postgres_url: str) -> None:
    """A stranger locks items in the other order. The server ends the worker's transaction, which is tried again.

    It ends whoever waits for a second when each waits for the other. The stranger would wait for an hour.
    """
    async with workers(gate, 1) as (opened, (queue,)):
        first, second, third = await opened.items(3, claim=True)
        tables = PostgresTables(postgres_url)
        lock = "SELECT 1 FROM work_items WHERE id = {} FOR UPDATE"
        with tables.connect() as other, tables.connect() as stranger:
            stranger.execute(f"SET application_name = '{tables.schema}'; SET deadlock_timeout = '1h'".encode())
            other.execute(f"BEGIN; {lock.format(second)}".encode())
            stranger.execute(f"BEGIN; {lock.format(third)}".encode())
            settling = asyncio.create_task(queue.settle([ended(one) for one in (first, second, third)]))
            await gate.until_waiting(1)
            locking = asyncio.create_task(asyncio.to_thread(stranger.execute, lock.format(first).encode()))
            await gate.until_waiting(2)
            other.execute(b"ROLLBACK")
            await soon(locking)
            assert not settling.done()
            stranger.execute(b"ROLLBACK")
        assert await soon(settling) == [True, True, True]


async def test_claims_settlements_and_operators_beside_each_other_leave_every_lane_sound(gate: Gate) -> None:
    """Nothing is lost, stuck or run by two at a time, however their transactions meet."""
    async with workers(gate, 4) as (opened, queues):
        await opened.items(40, lane="a")
        await opened.items(40, lane="b")
        await opened.items(40)
        running: set[int] = set()

        async def work(queue: PostgresQueue, name: WorkerId) -> None:
            while items := await queue.claim(
                [HandlerClaim(ONE, concurrency=8)],
                ClaimLimits(3, MUCH),
                lease=Lease(name, AFTER),
                now=NOON + SECOND,
            ):
                ids = {item.id for item in items}
                assert not ids & running
                running.update(ids)
                assert len(running) <= 8
                running.difference_update(ids)
                await queue.settle([ended(one, worker=name) for one in sorted(ids)])

        async def decide() -> None:
            for work_id in range(1, 121, 7):
                await opened.controls.bury([work_id, work_id + 1], "no", now=NOON)
                await opened.controls.retry([work_id], now=NOON)

        names = [WorkerId(f"w{n}") for n in range(4)]
        await asyncio.gather(decide(), *[work(*one) for one in zip(queues, names, strict=True)])
        for queue, name in zip(queues, names, strict=True):
            await work(queue, name)

        await opened.check_lanes()
        assert {one.state for one in await opened.work()} <= {DONE, DEAD}
