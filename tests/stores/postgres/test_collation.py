"""A database whose texts are ordered as people order words, and not by their bytes."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from receiver.core.jobs import JobFilter
from receiver.core.ports.store import Store
from receiver.core.types import HandlerName
from receiver.errors import UnknownDelivery, UnknownJob
from receiver.stores.copying import open_copy
from receiver.stores.memory import MemoryStore
from receiver.stores.postgres.connection import parse_address
from receiver.stores.postgres.store import PostgresStore, prepare
from receiver.stores.sql.copying import StoreCopy
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import NOON, delivery
from tests.stores.conftest import open_all
from tests.stores.opened import ONE, Opened
from tests.stores.outside import PostgresTables
from tests.stores.postgres.programs import installed_programs
from tests.stores.postgres.server import running_server

NAMES = ("a", "A-1", "a-2", "a_2", "a2", "A3", "ab", "B", "b", "ä", "Z", "_", "~z", "a b")
"""Bytes, and a dictionary, order these differently: there A stands between a and b, and - is passed over."""
UNORDERED = """
SELECT c.relname || '.' || a.attname
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid JOIN pg_collation AS l ON l.oid = a.attcollation
WHERE n.nspname = '{schema}' AND l.collname <> 'C' AND a.atttypid = 'text'::regtype
"""


def test_every_text_in_an_index_is_ordered_by_its_bytes(postgres_url: str) -> None:
    """Else an index would depend on the database, and be damaged by an update of its system's libraries."""
    prepare(parse_address(postgres_url))
    tables = PostgresTables(postgres_url)
    tables.run("CREATE TABLE other (key text PRIMARY KEY)")
    assert tables.select(UNORDERED.format(schema=tables.schema)) == [("other_pkey.key",)]


@pytest.fixture(scope="module")
def by_words() -> Iterator[str]:
    """The address of a database with the order of an English dictionary."""
    for programs in installed_programs():
        with running_server(programs) as server:
            if _make(server.url):
                yield f"{server.url.rpartition('/')[0]}/words"
                return
    pytest.skip("no PostgreSQL here has the orders of ICU")


def _make(server: str) -> bool:
    """Make the database; return whether the server can. The wheel's was built without ICU."""
    with psycopg.connect(server, autocommit=True) as connection, suppress(psycopg.errors.FeatureNotSupported):
        connection.execute(b"CREATE DATABASE words TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
        return True
    return False


async def told(store: Store) -> list[object]:
    """Return what a store with these names answers."""
    async with open_all(store) as opened:
        for name in NAMES:
            await opened.add(delivery(name, job_id=f"job-{name}", received_at=NOON))
        handlers = [HandlerName(f"h.{name}") for name in NAMES[:6]]
        await opened.route(*handlers, claim=False, lane="lane")
        for name in NAMES:
            await opened.queue.once(ONE, name, now=NOON)
        found: list[object] = [
            [one.name for one in await opened.reports.handlers()],
            [one.job_id async for one in opened.reports.jobs(JobFilter())],
            await opened.queue.available_once_keys(ONE, [*NAMES, "new"], now=NOON),
            await opened.keys(type="crawl.*", limit=5),
        ]
        for name in NAMES:
            found += [await _resolved(opened, name), await _resolved_job(opened, f"job-{name}")]
        return found


async def _resolved(opened: Opened, prefix: str) -> str:
    try:
        return str(await opened.reports.resolve(prefix))
    except UnknownDelivery as exc:
        return str(exc)


async def _resolved_job(opened: Opened, prefix: str) -> str:
    try:
        return await opened.reports.resolve_job(prefix)
    except UnknownJob as exc:
        return str(exc)


def test_the_store_answers_as_everywhere(by_words: str, tmp_path: Path) -> None:
    """Ids are found by their beginnings, listings come in the same order, and a copy there and back is equal."""
    with psycopg.connect(by_words) as connection:
        assert connection.execute(b"SELECT 'a' < 'B'").fetchone() == (True,)

    assert asyncio.run(told(PostgresStore(by_words))) == asyncio.run(told(MemoryStore()))

    async def copied(source: str, target: str) -> int:
        async with AsyncExitStack() as stack:
            reading, writing = await stack.enter_async_context(open_copy(source, target))
            copy = StoreCopy(reading, writing, page_size=3)
            await copy.run()
            return await copy.differences()

    there = f"sqlite:///{tmp_path}/there.db"
    assert asyncio.run(copied(by_words, there)) == 0
    assert asyncio.run(copied(there, f"{by_words}?schema=back")) == 0
    assert asyncio.run(told_ids(SqliteStore(there))) == asyncio.run(
        told_ids(PostgresStore(f"{by_words}?schema=back"))
    )


async def told_ids(store: Store) -> list[str]:
    """Return the keys of a store, the newest first."""
    async with open_all(store) as opened:
        return await opened.keys()
