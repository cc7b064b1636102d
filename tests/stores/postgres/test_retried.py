"""Appends that the server refuses for the sake of others, and that are run again."""

import psycopg
import pytest

from receiver.core.types import AppendOutcome
from receiver.stores.postgres.store import PostgresStore
from tests.doubles import appended, delivery, soon
from tests.stores.outside import PostgresTables
from tests.stores.postgres.gate import Gate


@pytest.mark.parametrize("level", ["repeatable%20read", "serializable"])
async def test_an_append_that_cannot_be_serialized_is_run_again(postgres_url: str, level: str) -> None:
    """An administrator set the level for everybody: what waited for a turn cannot see what was stored before it.

    The server refuses it (PostgreSQL manual, Transaction Isolation), and the second time it sees the delivery.
    """
    gate = Gate(postgres_url, "INSERT", "deliveries")
    options = f"&options=-cdefault_transaction_isolation%3D{level.replace('%20', '%5C%20')}"
    store = PostgresStore(gate.url + options)
    async with store.log() as log, store.log() as other:
        with gate.closed():
            first = appended(log, delivery())
            await gate.until_waiting(1)
            second = appended(other, delivery())
            await gate.until_waiting(2)
        assert (await soon(first)).outcome is AppendOutcome.ACCEPTED
        assert (await soon(second)).outcome is AppendOutcome.DUPLICATE

    assert PostgresTables(postgres_url).select("SELECT duplicates FROM deliveries") == [(1,)]


async def test_the_server_refuses_such_an_append(postgres_url: str) -> None:
    """So the test above can fail: a stranger that does the same gets the error, and does not try again."""
    row = "INSERT INTO deliveries (key, type, received_at, size) VALUES ('k', 'crawl.page', 0, 1)"
    async with PostgresStore(postgres_url).log() as log:
        with PostgresTables(postgres_url).connect() as stranger:
            stranger.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM deliveries")
            await soon(appended(log, delivery()))
            with pytest.raises(psycopg.errors.SerializationFailure):
                stranger.execute(f"{row} ON CONFLICT (key) DO NOTHING".encode())
