"""Pictures and PDFs that a browser made, kept for the 24 hours in which they can be fetched."""

import base64
import sqlite3
from datetime import timedelta

from receiver.core.clock import Clock, to_micros
from receiver.emulator.contracts import PublicAddress
from receiver.emulator.ids import IdSource
from receiver.emulator.scrapes import MediaFile
from receiver.emulator.state.database import StateDatabase

SCHEMA = """
CREATE TABLE IF NOT EXISTS browser_media (
    name TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS browser_profiles (
    team TEXT NOT NULL,
    name TEXT NOT NULL,
    saved_at INTEGER NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (team, name)
) STRICT;
CREATE INDEX IF NOT EXISTS browser_media_by_age ON browser_media (expires_at, name);
"""
PREFIX = "/_media"
KEPT_FOR = timedelta(hours=24)
MAX_BYTES = 512 * 1024 * 1024
"""Bytes of all files; the oldest are dropped first."""
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "application/pdf": "pdf"}
_KEEP = "INSERT INTO browser_media (name, expires_at, content_type, data) VALUES (?, ?, ?, ?)"
_FORGET = "DELETE FROM browser_media WHERE expires_at <= ?"
_SIZE = "SELECT COALESCE(sum(length(data)), 0) FROM browser_media"
_EVICT = (
    "DELETE FROM browser_media WHERE name IN (SELECT name FROM browser_media ORDER BY expires_at, name LIMIT 10)"
)
_FIND = "SELECT content_type, data FROM browser_media WHERE name = ? AND expires_at > ?"


class MediaStore:
    """Keeps files for a day. The address of a file is a secret, and the only key to it."""

    def __init__(
        self,
        database: StateDatabase,
        clock: Clock,
        ids: IdSource,
        address: PublicAddress,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._address = address
        self._max_bytes = max_bytes

    async def put(self, file: MediaFile, kept: bool) -> str:
        """Keep a file and return its URL. If it may not be kept, the URL contains the file itself."""
        if not kept:
            return f"data:{file.content_type};base64,{base64.b64encode(file.data).decode()}"
        name = f"{self._ids.new()}.{_ENDINGS[file.content_type]}"
        now = self._clock.now()

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_FORGET, (to_micros(now),))
            connection.execute(_KEEP, (name, to_micros(now + KEPT_FOR), file.content_type, file.data))
            while connection.execute(_SIZE).fetchone()[0] > self._max_bytes:
                connection.execute(_EVICT)

        await self._database.run(write)
        return f"{self._address.url}{PREFIX}/{name}"

    async def find(self, name: str) -> MediaFile | None:
        """Return a file; None if there is none, or its time is over."""
        now = to_micros(self._clock.now())
        row = await self._database.run(lambda connection: connection.execute(_FIND, (name, now)).fetchone())
        return None if row is None else MediaFile(content_type=row["content_type"], data=row["data"])
