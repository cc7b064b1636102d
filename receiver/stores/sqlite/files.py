"""The file of a SQLite store: finding, creating and migrating it. A new one has another name until it is whole."""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from receiver.core.types import Schema
from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.stores.sql.connection import NoNumber, number
from receiver.stores.sql.migrations import migrations_of, require_released
from receiver.stores.sqlite.database import (
    LOCK_PATIENCE,
    NOT_A_DATABASE,
    file_uri,
    is_busy,
    transaction,
    translated,
)
from receiver.stores.sqlite.system_files import OPENED, require_no_companion, sync_file
from receiver.stores.sqlite.write_ahead_log import index_path, log_facts, log_path

_MARK = re.compile(r"\..+-unfinished-[0-9a-f]{16}", re.DOTALL).fullmatch


@contextmanager
def unfinished(target: Path) -> Iterator[Path]:
    """Make an empty file beside the target, which only its owner can read. Remove what is left of it at the end.

    What killed processes have left of such files in the folder is removed first. Raises OSError.
    """
    remove_abandoned(target.absolute().parent)
    mark, descriptor = _marked(target)
    path = _database(mark)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        yield path
    finally:
        _remove(mark)
        os.close(descriptor)


def _marked(target: Path) -> tuple[Path, int]:
    """Make a file whose lock shows that this process makes a database, and return it.

    The lock ends with the process. It is not on the database itself, where it could be in the way of SQLite's.
    """
    while True:
        mark = target.with_name(f".{target.name}-unfinished-{os.urandom(8).hex()}")
        descriptor = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        with suppress(OSError):  # without such locks no process removes the file either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if mark.exists():
            return mark, descriptor
        os.close(descriptor)  # another process took it for abandoned before the lock was there


def remove_abandoned(folder: Path) -> None:
    """Remove the databases in a folder that killed processes were making. Each can be as large as a store."""
    with suppress(OSError):  # a folder that this user cannot list
        for path in folder.iterdir():
            if _MARK(path.name):
                _remove_if_abandoned(path)


def _remove_if_abandoned(mark: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(mark, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(descriptor).st_size:  # ours are empty
                _remove(mark)
        finally:
            os.close(descriptor)


def _remove(mark: Path) -> None:
    path = _database(mark)
    # The mark goes last: without it the others would not be found.
    for leftover in (log_path(path), index_path(path), path.with_name(f"{path.name}-journal"), path, mark):
        with suppress(OSError):
            leftover.unlink()


def _database(mark: Path) -> Path:
    return mark.with_name(f"{mark.name}.db")


log = event_log(__name__)

APPLICATION_ID = 0x43525631
"""Marks the file as ours (SQLite manual, PRAGMA application_id): the letters CRV1."""
_OLDEST_SQLITE = (3, 35, 0)
"""The first version with RETURNING. UPDATE FROM, upserts and partial indexes are older."""


def database_path(url: str) -> Path:
    """Return the file of a `sqlite:///FILE` address; a fourth slash makes the path absolute."""
    path = url.removeprefix("sqlite:///")
    if path == url or not path or path == ":memory:":
        raise ConfigurationError(f"{url!r} names no database file; write sqlite:///receiver.db")
    return Path(path)


def exists(path: Path) -> bool:
    """Return whether there is a file. Raises StoreRefused if there is none and none can be made in its folder."""
    try:
        if path.exists():
            return True
    except OSError as exc:
        raise StoreRefused(f"cannot reach the database {path}: {exc.strerror}") from None
    if not path.parent.is_dir():
        raise StoreRefused(f"cannot create the database {path}: there is no folder {path.parent}")
    import tempfile  # most often the file is there, and the start of a command can do without this

    try:
        with tempfile.TemporaryFile(dir=path.parent):
            return False
    except OSError as exc:
        why = f"the folder {path.parent} cannot be written: {exc.strerror}"
        raise StoreRefused(f"cannot create the database {path}: {why}") from None


def prepare(path: Path, *, create: bool, patience: timedelta = LOCK_PATIENCE) -> None:
    """Make the file ready for this version.

    With `create` a missing file is created, and one with an older schema migrated unless a process has it open
    for longer than `patience`. Without it such a file is refused. In all other cases nothing is changed.
    """
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise ConfigurationError(f"SQLite {sqlite3.sqlite_version} is too old; this program needs 3.35 or later")
    migrations = _migrations()
    newest = max(migrations)
    with translated(path):
        require_no_companion(path)
        if not exists(path):
            if not create:
                raise StoreError(f"there is no database at {path}; `receiver serve` creates it")
            _create(path, migrations)
            return
        if create:
            remove_abandoned(path.absolute().parent)
        _require_own_log(path)
        version = _checked_version(path, newest=newest)
        if version < newest:
            if not create:
                raise _too_old(path, version, newest)
            _migrate(path, migrations, patience)


def require_store(path: Path) -> int:
    """Return the version of the schema, which may be an older one. Nothing is changed.

    Raises an error unless the file is a store that this version can open or migrate.
    """
    with translated(path):
        require_no_companion(path)
        if not exists(path):
            raise StoreError(f"there is no database at {path}; `receiver serve` creates it")
        _require_own_log(path)
        version = _checked_version(path, newest=max(_migrations()))
        if version == 0:
            raise StoreRefused(f"{path} is empty")
        return version


def schema(path: Path) -> Schema:
    """Return the versions of the schema that the file has and that this program needs. Nothing is changed."""
    return Schema(require_store(path), max(_migrations()))


def _too_old(path: Path, version: int, newest: int) -> StoreRefused:
    if version == 0:
        return StoreRefused(f"{path} is empty; `receiver serve` makes it a database")
    return StoreRefused(
        f"{path} has schema {version}, and this version needs {newest}: start `receiver serve` or `receiver work`, "
        "which migrates it, or use the version that made it. Nothing was changed"
    )


def _require_own_log(path: Path) -> None:
    """Raise StoreRefused if the log beside the database is certainly of another one, or of another state of it.

    That happens when a copy of the database was put in its place and the log was left. While a process has the
    database open, the log is in use and was checked before.
    """
    log = log_path(path)
    with OPENED.none_opens(path) as is_closed:
        if not is_closed or (facts := log_facts(log)) is None or facts.fits(_header(path)):
            return
        # Another process may have opened it meanwhile, and moved the log into the database.
        with OPENED.none_opens(path) as is_still_closed:
            if not is_still_closed or log_facts(log) != facts or facts.fits(_header(path)):
                return
    raise StoreRefused(
        f"the log {log} does not belong to the database {path}: one of the two was replaced. Put the other one "
        "back too, or move the log away; what only the log has is then lost. `receiver restore` replaces both"
    )


def _create(path: Path, migrations: Mapping[int, str]) -> None:
    """Create the whole file or nothing. Only its owner can read it, as bodies can be confidential.

    It is made under another name, synced, and then linked to its own. So no other process sees an unfinished
    database. If two processes create it at the same time, the second uses the file of the first.
    """
    try:
        with unfinished(path) as made:
            _migrate(made, migrations, synced=False)  # one sync of the whole saves thirty
            sync_file(made)
            _link(made, path)
    except OSError as exc:
        raise StoreRefused(f"cannot create the database {path}: {exc.strerror}") from exc


def _link(made: Path, path: Path) -> None:
    """Give the file its name, unless another process was first."""
    try:
        os.link(made, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            made.rename(path)


def _checked_version(path: Path, *, newest: int) -> int:
    """Return the version of the schema. Raises StoreRefused for a file that this version must not change."""
    version, application, schema = _identity(path)
    if schema and application != APPLICATION_ID:
        raise StoreRefused(f"{path} is a database of another program; choose another file in RECEIVER_STORE")
    if version > newest:
        raise StoreRefused(
            f"{path} was written by a newer version of this program (schema {version}, this one knows {newest}); "
            "install that version again. Nothing was changed"
        )
    require_released(version, str(path))
    return version


def _identity(path: Path) -> tuple[int, int, int]:
    """Return user version, application id, and a number that is 0 only while the file has no tables."""
    if path.is_dir():
        raise StoreRefused(f"{path} is a folder; RECEIVER_STORE takes a file")
    if log_path(path).exists():
        with OPENED.one(path), closing(sqlite3.connect(file_uri(path, "ro"), uri=True)) as connection:
            pragmas = ("user_version", "application_id", "schema_version")
            found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
            return found[0], found[1], found[2]
    # Without a log beside it the file's header says all of this (SQLite file format, section 1.3). Opening the file
    # would make a log.
    header = _header(path)
    if header and not (len(header) == 100 and header.startswith(b"SQLite format 3\0")):
        raise StoreRefused(f"the database {path} cannot be used: {NOT_A_DATABASE}")
    version, application, schema = (int.from_bytes(header[at : at + 4]) for at in (60, 68, 40))
    return version, application, schema


def _header(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(100)
    except OSError as exc:
        raise StoreRefused(f"cannot read the database {path}: {exc.strerror}") from exc


def _migrations() -> Mapping[int, str]:
    return migrations_of("receiver.stores.sqlite")


def _migrate(
    path: Path, migrations: Mapping[int, str], patience: timedelta = LOCK_PATIENCE, *, synced: bool = True
) -> None:
    """Apply the missing migrations, each in a transaction of its own, while no other process has the file open.

    A program of the older version that has it open would fail with each statement afterwards. In the exclusive
    mode SQLite gives the lock only if there is no other connection, of any version, and lets none open until the
    end (SQLite manual, Write-Ahead Logging, "Use of WAL Without Shared-Memory"). Without `synced` the caller syncs
    the file, which no other process knows yet.
    """
    timeout = patience.total_seconds()
    with OPENED.one(path), closing(sqlite3.connect(path, isolation_level=None, timeout=timeout)) as connection:
        if not synced:
            connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            connection.execute("PRAGMA page_size = 8192")  # three bodies of 2 KB to a page, where 4,096 takes one
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # new files only; after the page size
            with transaction(connection, patience):
                # Asked again under the lock: another process may have migrated meanwhile.
                (before,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.OperationalError as exc:
            if not is_busy(exc):
                raise
            raise StoreError(
                f"{path} has an older schema, and another process has it open: stop every server, worker and "
                f"command that uses it, then this version migrates it to schema {max(migrations)}. "
                "Nothing was changed"
            ) from exc
        connection.execute("PRAGMA journal_mode = WAL")
        missing = {version: script for version, script in migrations.items() if version > before}
        for version, script in missing.items():
            with transaction(connection, patience):
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {version}")
    if before and missing:
        log.info("store_migrated", extra={"from": before, "to": max(missing)})


def _statements(script: str) -> Iterator[str]:
    """Split a script; `executescript` would commit on its own."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_ARE_ALL_THERE = """
SELECT count(*) = 8 FROM marks
WHERE name IN ('indexed', 'keyed', 'keys_moving', 'keys_part', 'keys_place', 'routed', 'store', 'summed')
"""


def require_marks(connection: sqlite3.Connection) -> None:
    """Raise NoNumber unless all are there. What compares with a missing one finds nothing, without an error."""
    if not number(connection, _ARE_ALL_THERE, {}):
        raise NoNumber
