"""The file of the configured store, and how commands describe what a store holds."""

from pathlib import Path

from receiver.core.clock import local_time
from receiver.core.sizes import shown_size
from receiver.core.text import counted
from receiver.errors import ConfigurationError
from receiver.settings import Settings
from receiver.stores.sqlite.backup import Contents
from receiver.stores.sqlite.files import database_path
from receiver.stores.sqlite.write_ahead_log import real_path


def database_file(settings: Settings) -> Path:
    """Return the file of the configured store, not a link to it.

    Raises ConfigurationError if it is not a SQLite store.
    """
    if not settings.store.startswith("sqlite:"):
        raise ConfigurationError(
            "backup and restore are for SQLite stores; use the tools of your database, such as pg_dump"
        )
    return real_path(database_path(settings.store))


def contents_line(held: Contents) -> str:
    """Return how many events there are, when the last arrived, the size of the file, and its schema."""
    last = f", the last arrived {local_time(held.last_at)}" if held.last_at else ""
    return f"{counted(held.deliveries, 'event')}{last}, {shown_size(held.size)}, schema {held.schema}"
