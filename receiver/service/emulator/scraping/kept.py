"""The documents of scrapes for the 24 hours in which they can be asked for again by their id."""

import asyncio
import sqlite3
from datetime import timedelta

from receiver.core.clock import Clock, to_micros
from receiver.service.emulator.json_text import to_json_beside
from receiver.service.emulator.scrapes import ScrapedPage
from receiver.service.emulator.state.database import StateDatabase
from receiver.service.emulator.state.packing import pack, unpack

SCHEMA = """
CREATE TABLE IF NOT EXISTS kept_scrapes (
    id TEXT PRIMARY KEY,
    team TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    document BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS kept_scrapes_by_age ON kept_scrapes (expires_at);
"""

KEPT_FOR = timedelta(hours=24)
"""How long a document can be asked for."""
_REMEMBERED = timedelta(hours=24)
"""How long it is known after this that it has expired."""
_KEEP = "INSERT OR REPLACE INTO kept_scrapes (id, team, expires_at, document) VALUES (?, ?, ?, ?)"
_FIND = "SELECT expires_at, document FROM kept_scrapes WHERE id = ? AND team = ?"
_FORGET = "DELETE FROM kept_scrapes WHERE expires_at < ?"


class ScrapeExpired(LookupError):
    """The document was kept, and its time is over."""


class KeptScrapes:
    """Keeps the documents of scrapes for their team."""

    def __init__(self, database: StateDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def put(self, team: str, page: ScrapedPage) -> None:
        """Keep the document of a scrape, and forget those that expired a day ago."""
        now = self._clock.now()
        document = await asyncio.to_thread(pack, await to_json_beside(page.document))
        values = (page.scrape_id, team, to_micros(now + KEPT_FOR), document)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP, values)
            connection.execute(_FORGET, (to_micros(now - _REMEMBERED),))

        await self._database.run(write)

    async def find(self, team: str, scrape_id: str) -> bytes | None:
        """Return the document as JSON; None if the team has no such scrape. ScrapeExpired if it had one."""
        row = await self._database.run(lambda connection: connection.execute(_FIND, (scrape_id, team)).fetchone())
        if row is None:
            return None
        if row["expires_at"] <= to_micros(self._clock.now()):
            raise ScrapeExpired
        return await asyncio.to_thread(unpack, row["document"])
