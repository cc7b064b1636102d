"""The readers' side of a SQLite store."""

import asyncio
import shutil
import sqlite3
from pathlib import Path

from receiver.core.search import SearchReach
from receiver.core.work import StoreFacts
from receiver.errors import StoreError
from receiver.stores.sql import narrowing
from receiver.stores.sql.reports import SqlReports
from receiver.stores.sqlite.body_files import body_files
from receiver.stores.sqlite.database import Database, data_version, file_at, same_file
from receiver.stores.sqlite.dialect import READS
from receiver.stores.sqlite.search import reach
from receiver.stores.sqlite.write_ahead_log import log_path

_POLL_SECONDS = 0.1
"""People read what comes of it."""


class SqliteReports(SqlReports):
    """A Reports."""

    def __init__(
        self,
        database: Database,
        path: Path,
        *,
        narrow_limit: int = narrowing.SCAN_LIMIT,
    ) -> None:
        super().__init__(database, READS, narrow_limit=narrow_limit)
        self._path = path
        self._opened_as = path.stat()
        self._seen: int | None = None

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index of words reaches, None without one."""
        return await self.database.call(reach)

    async def facts(self) -> StoreFacts:
        """Return how large the file, its log and the files of bodies are."""
        files = map(file_at, (self._path, log_path(self._path), *body_files(self._path)))
        size = sum(one.st_size for one in files if one is not None)
        return StoreFacts(size, free=shutil.disk_usage(self._path.parent).free)

    async def changed(self) -> None:
        """Return when another connection has committed since the last call."""
        while True:
            version = await self.database.call(self._version)
            if version != self._seen:
                self._seen = version
                return
            # The real clock: the change comes from another process.
            await asyncio.sleep(_POLL_SECONDS)

    async def require_present(self) -> None:
        """Raise StoreError when another file has replaced the one that was opened."""
        await self.database.call(lambda _: self._require_same_file())

    def _version(self, connection: sqlite3.Connection) -> int:
        self._require_same_file()
        return data_version(connection)

    def _require_same_file(self) -> None:
        if not same_file(self._path, self._opened_as):
            raise StoreError(f"the database {self._path} was moved or deleted")
