"""Copy a store into a file beside a running server, and put such a copy in the place of a store."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from receiver.core.clock import from_micros, to_micros
from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.stores.sql.columns_of_bodies import PLAIN, decoded
from receiver.stores.sqlite.bodies import body_files, files_of, opened_files
from receiver.stores.sqlite.database import DAMAGED_STORE, file_at, file_uri, same_file, translated
from receiver.stores.sqlite.files import require_store, unfinished
from receiver.stores.sqlite.statements import (
    CONTENTS,
    END_LEASES,
    NEWER,
    NO_WORKERS,
    RENUMBER,
    SOME_PLACES,
    TAKE_IN,
)
from receiver.stores.sqlite.system_files import OPENED, require_no_companion, sync_file, sync_folder
from receiver.stores.sqlite.write_ahead_log import index_path, log_facts, log_path, real_path

_PAGES = 256
"""Pages in one step, 2 MiB."""
_DAMAGED_BACKUP = "use another backup; nothing was replaced"
_BODIES = 40
"""Bodies in one step, most of which are below 50 KB."""
_PAUSE = 0.005
"""Seconds between two steps, so that acks get the disk."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a store holds: how many deliveries, when the last arrived, the bytes of its file, and its schema."""

    deliveries: int
    last_at: datetime | None
    size: int
    schema: int


def contents(path: Path) -> Contents:
    """Return what the backup in a file holds. Raises StoreRefused if this version cannot open it."""
    require_store(path)
    with translated(path, if_damaged=_DAMAGED_BACKUP), _reading(path, _mode(path)) as connection:
        return _contents(connection, path)


def newer_deliveries(path: Path, moment: datetime | None) -> int:
    """Return how many deliveries of the store arrived after a moment, or how many it has.

    Raises StoreError or StoreRefused if it cannot be read. Nothing is changed.
    """
    require_store(path)
    with translated(path), _reading(path, _mode(path)) as connection:
        (count,) = connection.execute(NEWER, (-1 if moment is None else to_micros(moment),)).fetchone()
        return int(count)


def back_up(source: Path, target: Path, *, overwrite: bool, advance: Callable[[int], None]) -> Contents:
    """Copy the store as it is at this moment; `advance` is called with the number of pages just copied.

    A store with an older schema is not migrated, and the copy has that schema too. The file appears under its name
    when it is complete and SQLite has found no fault in it. The write-ahead log grows until then, as it must keep
    what the copy still needs.
    """
    target = real_path(target)
    require_store(source)
    require_free(target, overwrite=overwrite, source=source)
    with _unfinished(target) as copy:
        # Writable, so that the last connection that closes can empty the log, as every other does.
        with translated(source):
            _copy(source, "rw", copy, target, advance)
            copied = _checked(copy, source, if_damaged=f"no copy was kept; {DAMAGED_STORE}")
        _put_in_place(copy, target, overwrite=overwrite)
    return copied


def restore(
    source: Path, target: Path, *, overwrite: bool, aside: Path | None, advance: Callable[[int], None]
) -> None:
    """Put a copy of the backup in `source` in the place of `target` and its log.

    What was there is kept as `aside`, unless that is None. The copy keeps its schema, which may be an older one. It
    shows no workers, and the next one runs again at once what ran while the backup was made.
    Raises StoreError if a process has the target open.
    """
    target = real_path(target)
    require_store(source)
    require_free(target, overwrite=overwrite, source=source)
    with _unfinished(target) as copy:
        with translated(source, if_damaged=_DAMAGED_BACKUP):
            _copy(source, _mode(source), copy, target, advance)
            _checked(copy, source, if_damaged=_DAMAGED_BACKUP)
        with translated(target):
            _end_workers(copy)
        if overwrite:
            _empty_log(target)
        _put_in_place(copy, target, overwrite=overwrite, aside=aside)


def require_free(target: Path, *, overwrite: bool, source: Path) -> None:
    """Raise an error if the target must not be written.

    It is there, is the source, belongs to the source or another database, or a process has it open.
    """
    require_no_companion(target)
    if any(same_file(one, file_at(source)) for one in _files(target)):
        raise ConfigurationError(f"{target} is the file to copy from, or that one is its log; name another one")
    if not overwrite and any(file_at(one) for one in _files(target)):
        raise ConfigurationError(
            f"{target} or a log of it is there already, and nothing was changed; --force replaces it"
        )
    with OPENED.none_opens(target) as is_closed:
        if not is_closed:
            raise _in_use(target)


def _in_use(target: Path) -> StoreError:
    return StoreError(f"the database {target} is in use; stop the server, its workers and other programs first")


def _files(path: Path) -> tuple[Path, Path, Path]:
    return path, log_path(path), index_path(path)


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    try:
        with unfinished(target) as path:
            yield path
    except OSError as exc:
        raise ConfigurationError(f"cannot write {target}: {exc.strerror}") from exc


def _mode(path: Path) -> str:
    """Return how to read a file that is a backup and stays as it is: to open one without a log would make a log."""
    return "ro" if log_path(path).exists() else "ro&immutable=1"


@contextmanager
def _reading(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open a store and hold one state of it.

    While a transaction of the source is open, commits of others do not make SQLite start the copy again (SQLite
    manual, Online Backup API).
    """
    with OPENED.one(path), closing(sqlite3.connect(file_uri(path, mode), uri=True, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute(CONTENTS).fetchone()
        yield reader


def _contents(connection: sqlite3.Connection, path: Path) -> Contents:
    deliveries, last_at = connection.execute(CONTENTS).fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    return Contents(deliveries, None if last_at is None else from_micros(last_at), path.stat().st_size, schema)


def _copy(source: Path, mode: str, copy: Path, target: Path, advance: Callable[[int], None]) -> None:
    done = 0

    def step(_: int, remaining: int, total: int) -> None:
        nonlocal done
        advance(total - remaining - done)
        done = total - remaining
        time.sleep(_PAUSE)

    with (
        _reading(source, mode) as reader,
        opened_files(source) as body_of,
        closing(sqlite3.connect(copy, isolation_level=None)) as writer,
    ):
        try:
            writer.execute("PRAGMA synchronous = OFF")  # the whole file is synced at the end
            reader.backup(writer, pages=_PAGES, progress=step)
            _take_in(writer, body_of)
        except sqlite3.OperationalError:  # no damage, so it is about writing
            with translated(target):
                raise


def _take_in(copy: sqlite3.Connection, body_of: Callable[[bytes], bytes | str]) -> None:
    """Put the bodies from files beside the source into the copy.

    From then on the copy is a database of its own, which takes no files of the source for its own.
    """
    while found := copy.execute(SOME_PLACES, (_BODIES,)).fetchall():
        copy.execute("BEGIN")
        for seq, key, place in found:
            copy.execute(TAKE_IN, (decoded(body_of(place), PLAIN, key=key), seq))
        copy.execute("COMMIT")
        time.sleep(_PAUSE)
    copy.execute(RENUMBER)
    # When it is closed, SQLite would not report that the disk is full, and leave changes in a log.
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _checked(copy: Path, source: Path, *, if_damaged: str) -> Contents:
    """Sync the copy and return what it holds. Raises StoreRefused if SQLite finds a fault in it."""
    sync_file(copy)
    with _reading(copy, _mode(copy)) as connection:
        (fault,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if fault != "ok":
            found = " ".join(fault.split())
            raise StoreRefused(f"the database {source} is damaged: {found}; {if_damaged}")
        return _contents(connection, copy)


def _end_workers(copy: Path) -> None:
    """Forget the workers that ran while the backup was made, and end their leases: none runs on the copy."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as writer:
        writer.execute("PRAGMA synchronous = OFF")  # the whole file is synced below
        writer.execute("BEGIN")
        for statement in (NO_WORKERS, END_LEASES):
            writer.execute(statement)
        writer.execute("COMMIT")
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # as above
    sync_file(copy)


def _empty_log(target: Path) -> None:
    """Move what the log of a database holds into it.

    The log has to go before the copy gets its name. Whoever is killed in between leaves the whole database, and not
    one without its newest events. A damaged one stays as it is, and so does one with the log of another.
    """
    with OPENED.none_opens(target) as is_closed:
        if not is_closed or log_facts(log_path(target)) is None:
            return
    with suppress(StoreError, StoreRefused, sqlite3.Error):
        require_store(target)
        with OPENED.one(target), closing(sqlite3.connect(file_uri(target, "rw"), uri=True)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _put_in_place(copy: Path, target: Path, *, overwrite: bool, aside: Path | None = None) -> None:
    """Give the copy its name. The log of an earlier file goes first: it must not be taken for the copy's."""
    with OPENED.none_opens(target) as is_closed:
        if not is_closed:
            raise _in_use(target)
        if overwrite:
            if aside is not None:
                _keep(target, aside)
            bodies = body_files(target) if aside is not None else _own_bodies(target)
            for old in _files(target)[1:]:
                old.unlink(missing_ok=True)
            copy.replace(target)
            for old in bodies:
                old.unlink(missing_ok=True)
        else:
            os.link(copy, target)  # it fails where a file has appeared meanwhile
    sync_folder(target.parent)


def _own_bodies(target: Path) -> Sequence[Path]:
    """Return the files of bodies of the database that is there; none if it is unknown which are its own."""
    with suppress(sqlite3.Error), _reading(target, _mode(target)) as connection:
        return files_of(connection, target)
    return ()


def _keep(target: Path, aside: Path) -> None:
    """Give the database, its log and its bodies other names too: all is there whenever this is interrupted."""
    if any(file_at(one) for one in _files(aside)):
        raise ConfigurationError(f"{aside} or a log of it is there already, and nothing was changed; move it away")
    bodies = [(one, aside.with_name(one.name.replace(target.name, aside.name, 1))) for one in body_files(target)]
    # The database is last: while it has two names, whoever opens both destroys it (SQLite manual, How To Corrupt,
    # section 2.5).
    for old, kept in (*bodies, (log_path(target), log_path(aside)), (target, aside)):
        if file_at(old) is None:
            continue
        try:
            os.link(old, kept)
        except OSError:  # a file system without hard links
            old.rename(kept)
