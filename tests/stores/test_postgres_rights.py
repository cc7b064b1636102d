"""A user with no more rights than the guide names can run everything but a migration."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from receiver.core.activity import PruneRule
from receiver.core.recorded_actions import NewAction
from receiver.core.schedules import PlannedRun
from receiver.errors import StoreRefused
from receiver.stores.copying import open_copy
from receiver.stores.postgres.connection import parse_address
from receiver.stores.postgres.store import PostgresStore, prepare
from receiver.stores.sql.copying import StoreCopy
from receiver.stores.sqlite.store import SqliteStore
from tests.doubles import delivery
from tests.stores.conftest import open_all
from tests.stores.opened import AFTER, DEAD, MUCH, ONE, QUEUED, ended
from tests.stores.outside import PostgresTables
from tests.stores.postgres.limited import limited_user


@pytest.fixture
def limited(postgres_url: str) -> Iterator[str]:
    """The address of a store that has tables, for a user with few rights."""
    prepare(parse_address(postgres_url))
    with limited_user(postgres_url) as url:
        yield url


async def test_all_faces_work_with_few_rights(limited: str) -> None:
    """Deliveries are stored, handled, searched, decided on and pruned."""
    store = PostgresStore(limited)
    async with open_all(store) as opened, store.search() as index:
        await opened.add(delivery("a"), delivery("a"))
        await opened.log.probe(AFTER, 9)
        work_id, _ = await opened.items(1, lane="lane")
        assert await opened.claimed() == [work_id]
        assert await opened.settle(ended(work_id, DEAD, error="no")) == [True]
        assert await opened.controls.retry([work_id], now=AFTER) == 1
        assert await opened.states(work_id) == [QUEUED]
        assert await opened.queue.once(ONE, "key", now=AFTER)
        assert await index.index(limit=9, max_bytes=MUCH) == 2
        await opened.maintenance.prune(PruneRule(AFTER), after=0, limit=9, now=AFTER)
        assert (await opened.reports.facts()).bytes > 0
    assert store.schema().stored == store.schema().needed
    assert isinstance(await store.health_notes(), list)


async def test_a_store_is_copied_into_tables_of_others(limited: str, tmp_path: Path) -> None:
    """The numbers of new rows go on behind the copied ones. What people did is recorded, and runs are scheduled."""
    source = f"sqlite:///{tmp_path / 'receiver.db'}"
    async with open_all(SqliteStore(source)) as opened:
        await opened.in_state(DEAD)
    async with open_copy(source, limited) as (reading, writing):
        await StoreCopy(reading, writing).run()
        assert await StoreCopy(reading, writing).differences() == 0

    async with open_all(PostgresStore(limited)) as opened:
        assert await opened.controls.begin_action(NewAction("cli", "retry", "all", 1), now=AFTER) == 1
        assert await opened.controls.retry([1], now=AFTER, action=1) == 1
        await opened.controls.end_action(1, now=AFTER)
        planned = PlannedRun(ONE, "1m", AFTER)
        assert await opened.queue.follow_schedules([planned], now=AFTER) == [AFTER]


async def test_without_the_right_to_make_tables_a_new_store_is_refused(limited: str) -> None:
    """The error says that the user may not do that."""
    store = PostgresStore(limited.replace("schema=", "schema=other_"))

    with pytest.raises(StoreRefused, match="this user may not do that"):
        async with store.log():
            pass


async def test_who_owns_a_schema_makes_the_tables_in_it(postgres_url: str) -> None:
    """An administrator made it for a user who may not make others."""
    tables, schema, user = PostgresTables(postgres_url), postgres_url.partition("schema=")[2], secrets.token_hex(4)
    tables.run(f"CREATE ROLE owner_{user} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION owner_{user}")
    parts = urlsplit(postgres_url)
    url = parts._replace(netloc=f"owner_{user}@{parts.netloc.rpartition('@')[2]}").geturl()
    try:
        async with open_all(PostgresStore(url)) as opened:
            await opened.add(delivery("a"))
    finally:
        tables.run(f"DROP OWNED BY owner_{user} CASCADE; DROP ROLE owner_{user}")
