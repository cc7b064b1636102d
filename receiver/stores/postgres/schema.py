"""The tables of a PostgreSQL store: finding, creating and migrating them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from receiver.core.types import Schema
from receiver.errors import StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.stores.postgres.connection import Address, PostgresConnection, StatementDeadline, Translation
from receiver.stores.postgres.database import translated
from receiver.stores.sql.migrations import migrations_of, require_released

log = event_log(__name__)

_PATIENCE = timedelta(minutes=10)
"""How long a statement of a migration may take."""
# A function such as to_regclass may answer from a cache, which does not know yet what another process has made.
_HAS_TABLES = """
SELECT count(*) > 0 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = 'schema_version'
"""
_HAS_SCHEMA = "SELECT count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = :schema"
_VERSION = "SELECT max(version) FROM schema_version"
_TURN = "SELECT pg_advisory_xact_lock(migrate_lock, 0)".replace("migrate_lock", ":migrate_lock")
# The turn of another process may take long.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0; SET LOCAL synchronous_commit = on"
_LOCK_PATIENCE = timedelta(seconds=5)
"""How long a migration waits for others that hold locks on the tables, while all others wait for it."""


def newest() -> int:
    """Return the version of the schema that this program needs."""
    return max(_migrations())


def stored_version(connection: PostgresConnection, translate: Translation) -> int:
    """Return the version of the schema, 0 where there are no tables."""
    (has_tables,) = connection.execute(_HAS_TABLES, {"schema": translate.schema}).fetchone()
    return int(connection.execute(_VERSION).fetchone()[0] or 0) if has_tables else 0


def schema(address: Address) -> Schema:
    """Return the versions of the schema that the database has and that this program needs. Nothing is changed."""
    with _connected(address, writes=False) as (connection, translate):
        version = stored_version(connection, translate)
    if version == 0:
        raise _no_store(address)
    require_known(version, address)
    return Schema(version, newest())


def exists(address: Address) -> bool:
    """Return whether the tables are there."""
    with _connected(address, writes=False) as (connection, translate):
        return stored_version(connection, translate) > 0


def prepare(address: Address, *, lock_patience: timedelta = _LOCK_PATIENCE) -> None:
    """Create the tables, or migrate those of an older version. Refuses those of a newer one.

    Processes that do so at the same time take turns, and all but the first find nothing to do.
    """
    with _connected(address, writes=True) as (connection, translate):
        if stored_version(connection, translate) == newest():
            return
        connection.command(_BEGIN)
        connection.execute(_TURN)
        connection.command(f"SET LOCAL lock_timeout = {lock_patience // timedelta(milliseconds=1)}")
        version = stored_version(connection, translate)
        require_known(version, address)
        if version == 0:
            _make_schema(connection, translate.schema)
        for number, script in _migrations().items():
            if number > version:
                connection.command(script.replace("{schema}", f'"{translate.schema}"'))
                connection.execute("INSERT INTO schema_version (version) VALUES (:version)", {"version": number})
        connection.command("COMMIT")
        if version:
            log.info("schema_migrated", extra={"store": address.name, "before": version, "after": newest()})


def _make_schema(connection: PostgresConnection, name: str) -> None:
    """Make the schema unless it is there: whoever owns one need not be allowed to make others."""
    if not connection.execute(_HAS_SCHEMA, {"schema": name}).fetchone()[0]:
        connection.command(f'CREATE SCHEMA "{name}"')
    connection.command(f'CREATE TABLE "{name}".schema_version (version integer PRIMARY KEY)')


def require_current(
    connection: PostgresConnection, translate: Translation, address: Address, *, or_next: bool = False
) -> None:
    """Raise an error unless the tables are of this version, or with `or_next` of the next one."""
    version = stored_version(connection, translate)
    if version == 0:
        raise _no_store(address)
    if or_next and version == newest() + 1:
        return
    require_known(version, address)
    if version < newest():
        raise StoreRefused(
            f"the database {address.name} has schema {version}, and this version needs {newest()}: start "
            "`receiver serve` or `receiver work`, which migrates it. Nothing was changed"
        )


def require_known(version: int, address: Address) -> None:
    """Raise StoreRefused for tables of a newer version, or from before the first release."""
    require_released(version, f"the database {address.name}")
    if version > newest():
        raise StoreRefused(
            f"the database {address.name} was made by a newer version (schema {version}, this version knows "
            f"{newest()}). Nothing was changed"
        )


def _no_store(address: Address) -> StoreError:
    return StoreError(f"the database {address.name} has no tables of ours; `receiver store migrate` creates them")


@contextmanager
def _connected(address: Address, *, writes: bool) -> Iterator[tuple[PostgresConnection, Translation]]:
    """Connect for a block."""
    translate = Translation(address.schema)
    deadline = StatementDeadline(_PATIENCE, f"deadline {address.name}")
    try:
        with translated(address.name):
            connection = PostgresConnection(address, translate, deadline, writes=writes)
            try:
                yield connection, translate
            finally:
                connection.close()
    finally:
        deadline.stop()


def _migrations() -> Mapping[int, str]:
    return migrations_of("receiver.stores.postgres")
