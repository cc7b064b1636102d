"""The tables of a store: made once, by whoever comes first, and beside those of other programs."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from receiver.core.deliveries import DeliveryFilter
from receiver.core.types import AppendOutcome, Schema
from receiver.errors import StoreError, StoreRefused
from receiver.stores.postgres import store as postgres_store
from receiver.stores.postgres.connection import Translation, parse_address
from receiver.stores.postgres.store import PostgresStore, newest, prepare
from receiver.stores.sql.migrations import migrations_of
from tests.doubles import NOON, appended, delivery, event_of, soon
from tests.stores.outside import PostgresTables
from tests.stores.postgres.gate import Gate
from tests.stores.postgres.test_faults import end_sessions


async def test_processes_that_start_at_the_same_time_make_the_tables_once(postgres_url: str) -> None:
    """All but the first find them there."""
    async with AsyncExitStack() as stack:
        logs = await soon(
            asyncio.gather(*[stack.enter_async_context(PostgresStore(postgres_url).log()) for _ in range(6)])
        )
        await soon(asyncio.gather(*[appended(log, delivery(str(number))) for number, log in enumerate(logs)]))

    tables = PostgresTables(postgres_url)
    assert tables.select("SELECT version FROM schema_version ORDER BY 1") == [(newest(),)]
    assert tables.select("SELECT count(*) FROM deliveries") == [(6,)]


async def test_whoever_waits_for_a_long_migration_waits_to_its_end(postgres_url: str) -> None:
    """Its patience with locks is for those on tables: a process must not fail because another one migrates."""
    gate = Gate(postgres_url, "", "")
    address = parse_address(gate.url)
    lock = Translation(address.schema)("SELECT pg_advisory_xact_lock(:migrate_lock, 0)")
    tables = PostgresTables(postgres_url)
    tables.run(f"CREATE SCHEMA {tables.schema}")
    with tables.connect() as other:
        other.execute(f"BEGIN; {lock}".encode())
        preparing = asyncio.create_task(
            asyncio.to_thread(prepare, address, lock_patience=timedelta(milliseconds=1))
        )
        await gate.until_waiting(1)
        await asyncio.to_thread(other.execute, b"SELECT pg_sleep(0.05)")
        other.execute(b"COMMIT")
    await soon(preparing)
    assert PostgresStore(postgres_url).exists()


async def test_a_database_without_our_tables_is_there_and_empty(postgres_url: str) -> None:
    """Whoever only reads or decides does not make them."""
    store = PostgresStore(postgres_url)
    assert not await asyncio.to_thread(store.exists)
    for opening in (store.reports, store.controls, store.maintenance):
        with pytest.raises(StoreError, match="has no tables of ours; `receiver store migrate` creates them"):
            async with opening():
                pass
    async with store.log():
        assert await asyncio.to_thread(store.exists)


async def test_tables_of_a_newer_version_are_refused_and_left_unchanged(postgres_url: str) -> None:
    """This program does not know what they mean."""
    store, tables = PostgresStore(postgres_url), PostgresTables(postgres_url)
    async with store.log():
        tables.run(f"INSERT INTO schema_version VALUES ({newest() + 1})")
    started = PostgresStore(postgres_url)
    for opening in (started.log, started.reports):
        with pytest.raises(StoreRefused, match="made by a newer version"):
            async with opening():
                pass


async def test_tables_of_an_older_version_are_migrated_by_servers_and_workers(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so once, and whoever only reads refuses them before. The second schema is made up."""
    tables, second = PostgresTables(postgres_url), newest() + 1
    async with PostgresStore(postgres_url).log() as log:
        await soon(appended(log, delivery("before")))
    script = "CREATE TABLE {schema}.seconds (at bigint); INSERT INTO {schema}.seconds SELECT 1;"
    with monkeypatch.context() as patched:
        patched.setattr(postgres_store, "migrations_of", lambda package: {**migrations_of(package), second: script})
        store = PostgresStore(postgres_url)
        assert await asyncio.to_thread(store.schema) == Schema(second - 1, second)
        with pytest.raises(StoreRefused, match=rf"has schema {second - 1}, .* needs {second}: start"):
            async with store.reports():
                pass
        with caplog.at_level("INFO"):
            async with store.log() as log, store.queue():
                assert (await soon(appended(log, delivery("before")))).outcome is AppendOutcome.DUPLICATE
    told = [vars(one) for one in caplog.records if event_of(one) == "schema_migrated"]
    assert [(one["before"], one["after"]) for one in told] == [(second - 1, second)]
    assert tables.select("SELECT at FROM seconds") == [(1,)]


async def test_tables_from_before_the_first_release_are_refused_and_left_unchanged(postgres_url: str) -> None:
    """The message says how to move."""
    tables = PostgresTables(postgres_url)
    async with PostgresStore(postgres_url).log():
        tables.run("UPDATE schema_version SET version = 6")
    store = PostgresStore(postgres_url)
    for opening in (store.log, store.queue, store.reports, store.controls):
        with pytest.raises(StoreRefused, match=r"has schema 6, from before .*export FILE.*import FILE"):
            async with opening():
                pass
    with pytest.raises(StoreRefused, match="Nothing was changed"):
        await asyncio.to_thread(store.schema)
    assert tables.select("SELECT version FROM schema_version") == [(6,)]


async def test_a_process_that_runs_goes_on_when_another_one_has_migrated(postgres_url: str) -> None:
    """An upgrade restarts one process after the other. Those that still wait for it may have to connect again."""
    gate, tables = Gate(postgres_url, "", ""), PostgresTables(postgres_url)
    store = PostgresStore(gate.url)
    async with store.log() as log, store.queue() as queue:
        await soon(appended(log, delivery("before")))
        tables.run(f"INSERT INTO schema_version VALUES ({newest() + 1})")
        end_sessions(postgres_url)
        await soon(appended(log, delivery("after")))
        assert len((await queue.routing_batch(limit=9, max_bytes=9_999)).deliveries) == 2
        async with store.maintenance() as maintenance:
            await maintenance.forget(NOON, limit=1)

        tables.run(f"INSERT INTO schema_version VALUES ({newest() + 2})")
        end_sessions(postgres_url)
        with pytest.raises(StoreError, match="made by a newer version"):
            await soon(appended(log, delivery("too late")))


async def test_two_stores_in_one_database_know_nothing_of_each_other(postgres_url: str) -> None:
    """Each has a schema of its own, and locks of its own."""
    other_url = f"{postgres_url}_other"
    try:
        async with PostgresStore(postgres_url).log() as log, PostgresStore(other_url).log() as other:
            with PostgresTables(postgres_url).connect() as stranger:
                stranger.execute(b"BEGIN; LOCK TABLE deliveries")
                await soon(appended(other, delivery("other")))
            await soon(appended(log, delivery("own")))
        async with PostgresStore(postgres_url).reports() as reports:
            assert [one.key async for one in reports.deliveries(DeliveryFilter())] == ["own"]
    finally:
        tables = PostgresTables(other_url)
        tables.run(f"DROP SCHEMA {tables.schema} CASCADE")
