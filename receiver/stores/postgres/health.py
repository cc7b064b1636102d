"""What an operator should know about the server of a PostgreSQL store."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from receiver.core.durations import in_words
from receiver.core.text import counted
from receiver.core.work import StoreFacts
from receiver.stores.postgres.connection import PostgresConnection
from receiver.stores.postgres.statements import health as statements

_OLD_SNAPSHOT = timedelta(minutes=10)
_MANY_DEAD_ROWS = 100_000


def facts(connection: PostgresConnection, schema: str) -> StoreFacts:
    """Return the size of the store, and how the server keeps up."""
    size, dead = connection.execute(statements.SIZE, {"schema": schema}).fetchone()
    (oldest,) = connection.execute(statements.OLDEST_SNAPSHOT).fetchone()
    (lag,) = connection.execute(statements.STANDBY_LAG).fetchone()
    return StoreFacts(size, dead, _seconds(oldest), _seconds(lag))


def notes(connection: PostgresConnection, schema: str) -> Sequence[str]:
    """Return what could harm a store on this server, each with what to do."""
    return [*setting_notes(connection), *load_notes(facts(connection, schema))]


def setting_notes(connection: PostgresConnection) -> Iterator[str]:
    """Yield what the settings of the server put at risk."""
    full_pages, standbys, synchronous = connection.execute(statements.SETTINGS).fetchone()
    if full_pages == "off":
        yield (
            "the server has full_page_writes=off, and a crash can damage it: set it to on, unless its file system "
            "never writes half a page"
        )
    if standbys and not synchronous:
        yield (
            "the server does not wait for its standby: a failover loses the deliveries that were acknowledged "
            "last; set synchronous_standby_names"
        )


def load_notes(found: StoreFacts) -> Iterator[str]:
    """Yield why the server cannot tidy up."""
    if found.oldest_snapshot is not None and found.oldest_snapshot > _OLD_SNAPSHOT:
        yield (
            f"a transaction on the server has been open for {in_words(found.oldest_snapshot)}: what died since "
            "then cannot be tidied up, and claims become slower; pg_stat_activity shows whose it is"
        )
    elif found.dead_rows is not None and found.dead_rows > _MANY_DEAD_ROWS:
        yield (
            f"the store has {counted(found.dead_rows, 'dead row')}: autovacuum is off or does not keep up with the "
            "load; claims become slower"
        )


def _seconds(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)
