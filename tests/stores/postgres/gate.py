"""Stop transactions in their midst, so that a test decides which of them goes on when."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tests.doubles import LONG, turns
from tests.stores.outside import PostgresTables

_GATE = 4_711
_MAKE = f"""
CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({_GATE}, hashtext(TG_TABLE_SCHEMA));
    RETURN NULL;
END
$$
"""
_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = current_schema()
"""


class Gate:
    """A place behind an `event` on a table where each transaction stops while the gate is closed."""

    def __init__(self, url: str, event: str, table: str) -> None:
        self._tables = PostgresTables(url)
        self._event, self._table = event, table
        self.url = f"{url}&application_name={self._tables.schema}"
        """The address by which stores are opened whose sessions `until_waiting` counts."""

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close the gate for a block."""
        self._tables.run(_MAKE)
        self._tables.run(
            f"CREATE TRIGGER gate AFTER {self._event} ON {self._table} EXECUTE FUNCTION wait_at_gate()"
        )
        with self._tables.connect() as holder:
            holder.execute(f"SELECT pg_advisory_lock({_GATE}, hashtext(current_schema()))".encode())
            yield

    async def until_waiting(self, count: int) -> None:
        """Return when so many sessions of these stores wait for a lock, at the gate or before."""
        async with asyncio.timeout(LONG):
            while await asyncio.to_thread(self._tables.select, _WAITING) != [(count,)]:
                await turns()
