"""A pooler in transaction mode between the store and the server: no transaction may rely on the session before."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import psycopg
import pytest

from receiver.core.types import AppendOutcome
from receiver.stores.memory import MemoryStore
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import NOON, appended, delivery, soon
from tests.stores.conftest import open_all
from tests.stores.opened import ONE
from tests.stores.postgres.pooler import installed, running_pooler
from tests.stores.postgres.test_concurrency import database_of
from tests.stores.test_stores_agree import Story


@pytest.fixture(scope="module")
def pooler(postgres_server: str) -> Iterator[str]:
    """The address of the shared server, through a pooler with three sessions."""
    program = installed()
    if program is None:
        pytest.skip("PgBouncer is not installed")
    with running_pooler(program, postgres_server) as url:
        yield url


@pytest.fixture
def pooled_url(pooler: str, postgres_url: str) -> str:
    """The address of a store that does not exist yet, through the pooler."""
    return f"{pooler}?{postgres_url.partition('?')[2]}"


async def test_the_pooler_gives_out_sessions_of_others(pooler: str) -> None:
    """So the tests here can fail: what one connection has prepared, another one finds."""
    with psycopg.connect(pooler, autocommit=True, prepare_threshold=None) as first:
        first.execute(b"SET application_name = 'left behind'")
        backend = first.execute(b"SELECT pg_backend_pid()").fetchone()
        with psycopg.connect(pooler, autocommit=True, prepare_threshold=None) as second:
            assert second.execute(b"SELECT pg_backend_pid()").fetchone() == backend


@pytest.mark.parametrize("seed", range(3))
async def test_a_store_behind_a_pooler_answers_as_any_other(pooled_url: str, seed: int) -> None:
    """Six connections of it share three sessions."""
    async with AsyncExitStack() as stack:
        left = await stack.enter_async_context(open_all(MemoryStore()))
        right = await stack.enter_async_context(open_all(PostgresStore(pooled_url)))
        await Story(seed, left, right).run(40)


async def test_many_appends_and_once_keys_behind_a_pooler(pooled_url: str) -> None:
    """Eight web processes append the same deliveries, and eight workers ask for the same key."""
    store = PostgresStore(pooled_url)
    async with AsyncExitStack() as stack:
        logs = [await stack.enter_async_context(store.log()) for _ in range(8)]
        queues = [await stack.enter_async_context(store.queue()) for _ in range(8)]

        appends = [appended(log, delivery(str(number))) for number in range(40) for log in logs]
        receipts = await soon(asyncio.gather(*appends))
        answers = await soon(asyncio.gather(*[queue.once(ONE, "key", now=NOON) for queue in queues]))

    assert [one.outcome for one in receipts].count(AppendOutcome.ACCEPTED) == 40
    assert sorted(answers) == [False] * 7 + [True]


async def test_nothing_is_prepared_behind_a_pooler(pooled_url: str, postgres_url: str) -> None:
    """A prepared statement would be sought in the session of another one. Without a pooler it saves time."""

    async def threshold(url: str) -> int | None:
        async with PostgresStore(url).queue() as queue:
            return await database_of(queue).call(lambda connection: connection.raw.prepare_threshold)

    assert await threshold(pooled_url) is None
    assert await threshold(postgres_url) is not None
