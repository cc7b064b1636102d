"""A server that is silent, crashes, ends connections or has none left: no false answer, no hang."""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import psycopg
import pytest

from receiver.core.claims import Lease
from receiver.core.deliveries import DeliveryFilter, Receipt
from receiver.core.ports.log import DeliveryLog
from receiver.core.types import AppendOutcome
from receiver.errors import StoreError, StoreRefused
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import LONG, NOON, appended, delivery, soon
from tests.stores.conftest import open_all
from tests.stores.opened import AFTER, MUCH, ONE, B, ended
from tests.stores.outside import PostgresTables
from tests.stores.postgres.gate import Gate
from tests.stores.postgres.programs import installed_programs
from tests.stores.postgres.relay import Relay
from tests.stores.postgres.server import FAST, Server, running_server

ACCEPTED, DUPLICATE = AppendOutcome.ACCEPTED, AppendOutcome.DUPLICATE
SHORT = timedelta(seconds=0.3)


@pytest.fixture
async def relay(postgres_url: str) -> AsyncIterator[Relay]:
    """A relay in front of the shared server."""
    async with Relay(postgres_url).open() as relay:
        yield relay


@pytest.fixture
def server(request: pytest.FixtureRequest, postgres_server: str) -> Iterator[Server]:
    """A server for this test alone, with the settings that it asks for."""
    programs = next(installed_programs(), None)
    if programs is None:
        pytest.skip("the server of these tests cannot be restarted")
    with running_server(programs, {**FAST, **getattr(request, "param", {})}) as server:
        yield server


async def outcome(log: DeliveryLog, key: str) -> AppendOutcome:
    """Append a delivery and return what became of it."""
    receipt: Receipt = await soon(appended(log, delivery(key)))
    return receipt.outcome


async def accepted_again(log: DeliveryLog, key: str) -> None:
    """Append until the store takes it."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                assert (await appended(log, delivery(key))).outcome is ACCEPTED
            except StoreError:
                continue
            return


async def append_without_end(log: DeliveryLog) -> None:
    """Append until the store refuses."""
    for number in count():
        await appended(log, delivery(f"one-of-many-{number}"))


async def test_an_append_ends_with_an_error_when_the_server_falls_silent(relay: Relay) -> None:
    """It may have been stored: then what the sender sends again is a duplicate."""
    async with PostgresStore(relay.url, append_deadline=SHORT).log() as log:
        assert await outcome(log, "before") is ACCEPTED
        relay.fall_silent()
        with pytest.raises(StoreError, match=r"did not answer within 0\.3 s"):
            await outcome(log, "meanwhile")
        with pytest.raises(StoreError, match="cannot be used"):
            await outcome(log, "meanwhile")
        relay.speak()
        await accepted_again(log, "after")
        assert await outcome(log, "before") is DUPLICATE


async def test_closing_does_not_wait_for_a_silent_server(relay: Relay) -> None:
    """What was submitted fails at its deadline, and then the log is closed."""
    async with PostgresStore(relay.url, append_deadline=SHORT).log() as log:
        await outcome(log, "before")
        relay.fall_silent()
        last = appended(log, delivery("last"))
    with pytest.raises(StoreError):
        await last


async def test_a_connection_cut_in_mid_commit_stores_once(relay: Relay, postgres_url: str) -> None:
    """The server has committed, and its answer was lost. Sent again, the delivery is counted as a duplicate."""
    async with PostgresStore(relay.url).log() as log:
        await outcome(log, "before")
        relay.cut_instead_of_answers()
        with pytest.raises(StoreError):
            await outcome(log, "cut")
        assert relay.dropped.is_set()
        assert await outcome(log, "cut") is DUPLICATE

    rows = PostgresTables(postgres_url).select("SELECT key, duplicates FROM deliveries ORDER BY seq")
    assert rows == [("before", 0), ("cut", 1)]


async def test_a_connection_that_the_server_ended_between_two_calls_is_made_again(postgres_url: str) -> None:
    """Nobody gets an error for it."""
    gate = Gate(postgres_url, "INSERT", "deliveries")
    store = PostgresStore(gate.url)
    async with store.log() as log, store.queue() as queue:
        await outcome(log, "before")
        end_sessions(postgres_url)
        assert await outcome(log, "after") is ACCEPTED
        assert len((await queue.routing_batch(limit=9, max_bytes=MUCH)).deliveries) == 2


async def test_ids_that_a_crash_has_forgotten_are_not_given_again(postgres_url: str) -> None:
    """Items and their numbers are not synced. What a worker still runs of those must not end another item."""
    gate = Gate(postgres_url, "", "")
    tables = PostgresTables(postgres_url)
    async with open_all(PostgresStore(gate.url)) as opened:
        (forgotten,) = await opened.items(1, claim=True)
        tables.run(
            "DELETE FROM work_items; UPDATE marks SET value = 0 WHERE name = 'routed'; "
            "SELECT setval('work_items_id_seq', 1, false)"
        )
        end_sessions(postgres_url)
        (again,) = await opened.route(ONE)

        assert again != forgotten
        assert await opened.settle(ended(forgotten)) == [False]
        assert await opened.settle(ended(again)) == [True]


async def test_a_session_that_is_ended_in_the_midst_of_an_append_stores_nothing(postgres_url: str) -> None:
    """The sender gets an error, and its next try is accepted."""
    gate = Gate(postgres_url, "INSERT", "deliveries")
    async with PostgresStore(gate.url).log() as log:
        with gate.closed():
            appending = appended(log, delivery("k"))
            await gate.until_waiting(1)
            end_sessions(postgres_url)
            with pytest.raises(StoreError, match="the server has ended the connection"):
                await soon(appending)
        assert await outcome(log, "k") is ACCEPTED


def end_sessions(postgres_url: str) -> None:
    """End the sessions of the stores whose application has the name of their schema."""
    PostgresTables(postgres_url).select(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = current_schema()"
    )


async def test_a_statement_that_an_administrator_limits_fails_and_the_next_works(postgres_url: str) -> None:
    """The connection is still good."""
    tables = PostgresTables(postgres_url)
    async with PostgresStore(f"{postgres_url}&options=-clock_timeout%3D50ms").log() as log:
        await outcome(log, "before")
        with tables.connect() as stranger:
            stranger.execute(b"BEGIN; LOCK TABLE deliveries")
            with pytest.raises(StoreError, match="a lock could not be taken in time"):
                await outcome(log, "meanwhile")
        assert await outcome(log, "meanwhile") is ACCEPTED


async def test_one_row_that_the_server_refuses_fails_alone(postgres_url: str) -> None:
    """No text of PostgreSQL has a NUL. The other deliveries of its batch are stored."""
    async with PostgresStore(postgres_url).log() as log:
        appends = [
            appended(log, delivery("a")),
            appended(log, delivery("b", job_id="\0")),
            appended(log, delivery("c")),
        ]
        appends.append(appended(log, delivery("d", job_id="\ud800")))
        results = await soon(asyncio.gather(*appends, return_exceptions=True))

        assert [isinstance(one, StoreError) for one in results] == [False, True, False, True]
        assert await outcome(log, "c") is DUPLICATE


# --- with a server of its own


async def test_a_server_that_crashes_and_starts_again_has_what_it_acknowledged(server: Server) -> None:
    """Every connection breaks. Appends and the worker go on by themselves."""
    store = PostgresStore(server.url)
    async with store.log() as log, store.queue() as queue, store.reports() as reports:
        for number in range(3):
            assert await outcome(log, f"before-{number}") is ACCEPTED
            assert await queue.once(ONE, f"key-{number}", now=NOON)
            await asyncio.to_thread(server.stop, signal.SIGQUIT)
            with pytest.raises(StoreError):
                await outcome(log, "down")
            with pytest.raises(StoreError):
                await queue.routing_batch(limit=9, max_bytes=MUCH)
            await asyncio.to_thread(server.start)
            await accepted_again(log, f"after-{number}")
            assert not await queue.once(ONE, f"key-{number}", now=NOON)
        keys = [one.key async for one in reports.deliveries(DeliveryFilter())]

    assert keys == [f"{when}-{number}" for number in (2, 1, 0) for when in ("after", "before")]


async def test_what_one_server_process_told_is_not_routed_by_the_next(server: Server) -> None:
    """A standby that took its place may lack some of it. Whoever reads again may route."""
    store = PostgresStore(server.url)
    async with store.log() as log, store.queue() as queue:
        assert await outcome(log, "k") is ACCEPTED
        before = await queue.routing_batch(limit=9, max_bytes=MUCH)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await accepted_again(log, "after")
        assert await queue.route(before, [], lease=Lease(B, AFTER), now=NOON) is None

        again = await queue.routing_batch(limit=9, max_bytes=MUCH)
        assert [one.delivery.key for one in again.deliveries] == ["k", "after"]
        assert await queue.route(again, [], lease=Lease(B, AFTER), now=NOON) == ()


@pytest.mark.parametrize("server", [{"max_connections": "8", "superuser_reserved_connections": "0"}], indirect=True)
async def test_a_server_without_a_connection_left_is_an_error_until_one_is_free(server: Server) -> None:
    """The words say so."""
    store = PostgresStore(server.url)
    async with store.log():
        pass
    others = []
    while True:
        try:
            others.append(psycopg.connect(server.url))
        except psycopg.OperationalError:
            break
    with pytest.raises(StoreError, match="the server has no connection left"):
        async with store.log():
            pass
    for other in others:
        other.close()
    async with asyncio.timeout(LONG):
        while True:
            try:
                async with store.log() as log:
                    assert await outcome(log, "k") is ACCEPTED
            except StoreError:
                continue
            return


async def test_a_server_that_takes_no_writes_for_a_while_is_connected_to_anew(server: Server) -> None:
    """So that with the addresses of several, another one is found that does."""
    mine = "SELECT pid FROM pg_stat_activity WHERE application_name = 'receiver'"
    switch = "ALTER SYSTEM SET default_transaction_read_only = {}"
    with psycopg.connect(server.url, autocommit=True) as admin:
        async with PostgresStore(server.url).log() as log:
            await outcome(log, "before")
            first = admin.execute(mine.encode()).fetchall()
            admin.execute(switch.format("on").encode())
            admin.execute(b"SELECT pg_reload_conf()")
            with pytest.raises(StoreError, match="it is read-only"):
                await soon(append_without_end(log))
            admin.execute(switch.format("off").encode())
            admin.execute(b"SELECT pg_reload_conf()")
            await accepted_again(log, "after")
            assert admin.execute(mine.encode()).fetchall() != first


@pytest.mark.parametrize("server", [{"fsync": "off"}], indirect=True)
async def test_a_server_that_does_not_sync_is_refused(server: Server) -> None:
    """It would lose what was acknowledged."""
    with pytest.raises(StoreRefused, match="fsync off"):
        async with PostgresStore(server.url).log():
            pass


@pytest.mark.parametrize("server", [{"synchronous_commit": "off"}], indirect=True)
async def test_appends_are_synced_whatever_the_server_does_by_default(server: Server) -> None:
    """Each append is on the disk when it resolves: at its end the log was flushed up to its commit."""
    store = PostgresStore(server.url)
    async with store.log() as log:
        for number in range(20):
            await outcome(log, str(number))
            with psycopg.connect(server.url) as connection:
                last = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"
                assert connection.execute(last.encode()).fetchone() == (True,)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 120 MB. Only root can make one."""
    folder = Path(tempfile.mkdtemp(prefix="small-"))  # the folders of pytest are closed to the server's user
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", folder], capture_output=True)
    if made.returncode:
        folder.rmdir()
        pytest.skip("only root can mount a small file system")
    folder.chmod(0o755)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
    folder.rmdir()


async def test_a_full_disk_is_an_error_until_there_is_room(small_disk: Path) -> None:
    """What was acknowledged is there afterwards, and nothing else."""
    programs = next(installed_programs(), None)
    if programs is None:
        pytest.skip("there is no server to start")
    settings = {**FAST, "max_wal_size": "32MB", "min_wal_size": "32MB"}
    with running_server(programs, settings, parent=small_disk) as server:
        async with PostgresStore(server.url).log() as log:
            await outcome(log, "before")
            ballast = small_disk / "ballast"
            fill(ballast)
            with pytest.raises(StoreError, match="the disk of the server is full"):
                await soon(appended(log, delivery("large", body=os.urandom(4 * 1024 * 1024))))
            ballast.unlink()
            await accepted_again(log, "after")
        async with PostgresStore(server.url).reports() as reports:
            assert [one.key async for one in reports.deliveries(DeliveryFilter())] == ["after", "before"]


def fill(path: Path) -> None:
    """Write a file that leaves hardly any room."""
    with path.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(64 * 1024))
            except OSError:
                return
