"""Writes long bodies into files beside the database."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from receiver.errors import StoreError
from receiver.stores.sql.connection import number
from receiver.stores.sqlite.body_files import new_name, path_of, place_of
from receiver.stores.sqlite.statements import body_files as statements
from receiver.stores.sqlite.synced import sync, sync_folder

MAX_FILE_BYTES = 32 * 1024 * 1024
"""A file that has reached this gets no more bodies: the room that moved bodies leave is free when the file goes."""


def body_writer(database: Path) -> "BodyWriter | None":
    """Return a writer for a database, None in a folder that this user cannot read: names there cannot be synced."""
    resolved = database.resolve()
    return BodyWriter(resolved) if os.access(resolved.parent, os.R_OK) else None


class BodyWriter:
    """Writes bodies within transactions, into one file after the other. Other processes have files of their own.

    Behind a transaction follows `keep`, or `give_up` after an error.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._file: _OpenFile | None = None

    def write(self, connection: sqlite3.Connection, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Write bodies, sync them, and return their places. While the transaction is open, nobody removes the file.

        Raises StoreError if they cannot be written.
        """
        try:
            return self._usable(connection).write(bodies)
        except OSError as exc:
            raise StoreError(f"no files can be written beside {self._database}: {exc.strerror}") from exc

    def probe(self, connection: sqlite3.Connection, size: int) -> None:
        """Write so many bytes and give back their room, inside a transaction. Raises StoreError if that fails."""
        self.write(connection, [bytes(size)])
        self._cut()

    def keep(self) -> None:
        """Keep what was written. After a transaction without long bodies, give up a file that was removed."""
        if self._file is None:
            return
        if self._file.written != self._file.end:
            self._file.end = self._file.written
            return
        with suppress(OSError):  # the next long body tells
            if not self._file.is_in_place():
                self.close()  # an open file keeps its room on the disk

    def give_up(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """Give back the room of what was written, unless the transaction is committed or may come back.

        It may where reading or writing has failed: a commit whose sync failed can be found whole after a crash.
        The file gets no more bodies: after a failed sync, a later one may succeed although something was lost
        (fsync(2)).
        """
        if self._file is None or self._file.written == self._file.end:
            return
        place = {"place": self._file.place_of_end()}
        with suppress(sqlite3.Error, OSError):  # the error at hand says more about such a database or disk
            if not (_may_come_back(error) or connection.execute(statements.IS_USED_FROM, place).fetchone()[0]):
                self._file.cut()
        self.close()

    def _cut(self) -> None:
        if self._file is not None:
            self._file.cut()
            self.close()

    def close(self) -> None:
        """Close the file. The next body begins another one."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _usable(self, connection: sqlite3.Connection) -> "_OpenFile":
        if self._file is not None and (self._file.end >= MAX_FILE_BYTES or not self._file.is_in_place()):
            self.close()
        if self._file is None:
            self._file = _OpenFile(self._database, number(connection, statements.STORE, {}))
        return self._file


def _may_come_back(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR


class _OpenFile:
    """A new file, to which only this process appends."""

    def __init__(self, database: Path, store: int) -> None:
        self._name = new_name(store)
        self._path = path_of(database, self._name)
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        self.end = self.written = 0
        try:
            _share_like(database.stat(), self._descriptor)
            sync_folder(database.parent)
        except BaseException:
            with suppress(OSError):  # the first error is the cause
                self.cut()
            self.close()
            raise

    def is_in_place(self) -> bool:
        """Tell whether the file still has its name: nobody finds what is written otherwise."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def write(self, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Append bodies and sync them; return their places."""
        places = []
        start = self.written
        self.written += sum(map(len, bodies))
        for body in bodies:
            places.append(place_of(self._name, start, len(body)))
            rest = memoryview(body)
            while rest:
                count = os.pwrite(self._descriptor, rest, start)
                rest, start = rest[count:], start + count
        sync(self._descriptor)
        return places

    def place_of_end(self) -> bytes:
        """Return the first place that is not kept."""
        return place_of(self._name, self.end, 0)

    def cut(self) -> None:
        """Give back the room behind the end, and the file if nothing is in front of it."""
        if self.end:
            os.ftruncate(self._descriptor, self.end)
        else:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _share_like(database: os.stat_result, descriptor: int) -> None:
    """Let those use a file who may use the database, as far as the system allows: SQLite does so with its log."""
    os.fchmod(descriptor, database.st_mode & 0o666)
    with suppress(OSError):
        os.fchown(descriptor, database.st_uid, database.st_gid)
