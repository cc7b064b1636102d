"""Copy one SQL store into another, row by row, while programs may use the first.

Each page of rows is compared with that of the target, and only what differs is written. So a copy that was stopped,
or whose source has changed since, continues with the same call, and no row is written of a target that is equal.
What the source no longer has is removed, but nothing that did not come from it: marks say which store was copied,
and how far.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

from receiver.core.batches import batches
from receiver.errors import ConfigurationError, StoreRefused
from receiver.stores.sql.columns_of_bodies import PLAIN, decoded
from receiver.stores.sql.connection import NamedDatabase, SqlConnection, SqlDatabase, Values
from receiver.stores.sql.dialect import Dialect, insert
from receiver.stores.sql.statements.columns import ROUTED
from receiver.stores.sql.statements.deliveries import LAST_DELIVERY
from receiver.stores.sql.statements.work import LAST_WORK


@dataclass(frozen=True)
class CopiedTable:
    """A table that both stores have, with the columns that identify a row, and all others."""

    name: str
    key: tuple[str, ...]
    others: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns, those of the key first."""
        return self.key + self.others

    @cached_property
    def has_bodies(self) -> bool:
        """Whether the rows can be long, so that they are compared by the length of their bodies first."""
        return "body" in self.others

    def page(self, dialect: Dialect, *, through_end: bool) -> str:
        """Return rows after the place `:after0` and so on, with the lengths of bodies in place of the bodies.

        They go up to the place `:last0` and so on, or `through_end`.
        """
        columns = ", ".join("length(body)" if one == "body" else one for one in self.columns)
        key = ", ".join(self.key)
        after = ", ".join(f":after{n}" for n in range(len(self.key)))
        last = ", ".join(f":last{n}" for n in range(len(self.key)))
        bound = "" if through_end else f"AND ({key}) <= ({last})"
        return f"SELECT {columns} FROM {self._source(dialect)} WHERE ({key}) > ({after}) {bound} ORDER BY {key}"

    def with_bodies(self, dialect: Dialect) -> str:
        """Return whole rows by an array of their ids."""
        (key,) = self.key
        columns, wanted = ", ".join(self.columns), dialect.among(key, "ids")
        return f"SELECT {columns} FROM {self._source(dialect)} WHERE {wanted} ORDER BY {key}"

    def _source(self, dialect: Dialect) -> str:
        return f"({dialect.whole_bodies}) AS whole" if self.name == "bodies" else self.name

    def write(self, rows: int) -> str:
        """Insert so many rows, or replace those with the same keys."""
        values = ", ".join([f"({', '.join('?' * len(self.columns))})"] * rows)
        changes = ", ".join(f"{one} = excluded.{one}" for one in self.others)
        return (
            f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES {values} "
            f"ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {changes}"
        )

    @cached_property
    def remove(self) -> str:
        """Remove the row with a key."""
        return f"DELETE FROM {self.name} WHERE {' AND '.join(f'{one} = :{one}' for one in self.key)}"


def _table(name: str, key: str, others: str) -> CopiedTable:
    """Return a table by its columns, which are written with blanks between them."""
    return CopiedTable(name, tuple(key.split()), tuple(others.split()))


COPIED = (
    _table("deliveries", "seq", "key type job_id webhook_id success received_at size duplicates origin pruned_at"),
    _table("bodies", "seq", "headers body coding"),
    _table("quarantine", "id", "received_at reason detail key headers body"),
    _table("handlers", "name", "switch paced_until"),
    _table(
        "work_items",
        "id",
        "delivery_seq handler state attempts uncounted lost deaths suspect started trigger due_at lease_until "
        "recheck_at hold_until worker lane note last_error action_id",
    ),
    _table("attempts", "work_id number", "trigger started_at ended_at outcome error traceback overdue"),
    _table("actions", "id", "actor verb about choice planned seen changed began_at seen_at ended_at error"),
    _table("schedules", "handler", "schedule next_at"),
    _table("once_keys", "handler key", "asked_at expires_at"),
)
"""`heads_lane` is left to `HEADS`: no lane may have two heads, and pages are read at different times."""

HEADS = "SELECT id FROM work_items WHERE heads_lane = 1 ORDER BY id"

NO_HEADS = "UPDATE work_items SET heads_lane = 0 WHERE heads_lane = 1"

SIZES = """
SELECT
    (SELECT count(*) FROM deliveries), (SELECT coalesce(sum(size), 0) FROM deliveries WHERE pruned_at IS NULL),
    (SELECT count(*) FROM work_items), (SELECT count(*) FROM quarantine)
"""

LAST_GIVEN = f"""
SELECT
    ({LAST_DELIVERY}), ({ROUTED}), ({LAST_WORK}), (SELECT coalesce(max(id), 0) FROM quarantine),
    (
        SELECT coalesce(max(last), 0) FROM (
            SELECT max(id) AS last FROM actions UNION ALL
            SELECT max(action_id) FROM work_items WHERE action_id IS NOT NULL
        ) AS given
    )
"""
"""Work items remember the numbers of actions that were forgotten: a new one must not take such a number."""


def set_heads(dialect: Dialect) -> str:
    """Make the items in the array `:ids` the heads of their lanes."""
    return f"UPDATE work_items SET heads_lane = 1 WHERE {dialect.among('id', 'ids')}"


KEYS = _table("deliveries", "seq", "key")
"""What distinguishes one delivery from another."""

COPIED_FROM = "copied_from"
"""The mark of a copy that says what identifies its source."""

_NUMBERED = {"deliveries": "seq", "quarantine": "id", "work_items": "id", "actions": "id"}
"""Tables whose rows get numbers that grow, so that rows after the last copied one can be recognized."""

COPIED_THROUGH = {table: f"copied_{table}" for table in _NUMBERED}
"""The marks of a copy that say which number came last from its source."""

FILLED = " UNION ALL ".join(f"SELECT '{one.name}' WHERE EXISTS (SELECT 1 FROM {one.name})" for one in COPIED)

BEHIND_COPIED = " UNION ALL ".join(
    f"""
    SELECT '{table}' WHERE (SELECT coalesce(max({column}), 0) FROM {table})
        > (SELECT coalesce(max(value), 0) FROM marks WHERE name = '{COPIED_THROUGH[table]}')
    """
    for table, column in _NUMBERED.items()
)


_MARK = "SELECT value FROM marks WHERE name = :name"

_SET_MARK = """
INSERT INTO marks (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def mark(connection: SqlConnection, name: str) -> int | None:
    """Return the number of a name, None if the store keeps none."""
    row = connection.execute(_MARK, {"name": name}).fetchone()
    return None if row is None else int(row[0])


def set_mark(connection: SqlConnection, name: str, value: int) -> None:
    """Keep a number, inside a transaction."""
    connection.execute(_SET_MARK, {"name": name, "value": value})


def begin_copy(connection: SqlConnection, origin: int) -> None:
    """Note in an empty store that it becomes a copy of the store with this identity, inside a transaction."""
    if connection.execute(FILLED).fetchone() is None:
        for name in COPIED_THROUGH.values():
            set_mark(connection, name, 0)
        set_mark(connection, COPIED_FROM, origin)


def note_copied(connection: SqlConnection, table: str, last: int) -> None:
    """Note that rows up to this number came from the source, in the transaction that writes them."""
    name = COPIED_THROUGH[table]
    set_mark(connection, name, max(last, mark(connection, name) or 0))


def foreign_table(connection: SqlConnection, origin: int) -> tuple[str, bool] | None:
    """Return a table with rows that no copy of the store with this identity brought, None if there is none.

    Beside it stands whether the store was a copy of that one, and has taken the rows itself.
    """
    filled = connection.execute(FILLED).fetchone()
    if filled is None:
        return None
    if mark(connection, COPIED_FROM) != origin:
        return filled[0], False
    own = connection.execute(BEHIND_COPIED).fetchone()
    return None if own is None else (own[0], True)


PAGE_SIZE = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Rows that are compared at one time, and bytes of bodies that one transaction writes."""
SOURCE, TARGET = "FROM", "TO"
"""What the two stores are called in errors, as in the help of the command."""

_Key = tuple[Any, ...]
_Row = tuple[Any, ...]


class CopySide(Protocol):
    """One of the two stores, open."""

    @property
    def database(self) -> SqlDatabase:
        """The connection."""

    @property
    def dialect(self) -> Dialect:
        """Its spelling."""

    @property
    def identity_mark(self) -> str:
        """The mark whose number no other store has."""

    def continue_behind(self, connection: SqlConnection, table: str, last: int) -> None:
        """Let the numbers of new rows of a table begin after this one, inside a transaction."""

    def finish(self, connection: SqlConnection) -> None:
        """Make what this kind of store derives from the copied rows, inside a transaction."""


@dataclass(frozen=True, slots=True)
class CopySizes:
    """What a store holds."""

    deliveries: int
    bytes: int
    work_items: int
    quarantined: int


async def sizes_of(store: NamedDatabase) -> CopySizes:
    """Return what a store holds."""
    return CopySizes(*map(int, await store.call(lambda found: found.execute(SIZES).fetchone())))


class StoreCopy:
    """A copy from a source to a target. `advance` is called with the number of rows that were compared."""

    def __init__(
        self,
        source: CopySide,
        target: CopySide,
        *,
        advance: Callable[[int], None] = lambda rows: None,
        page_size: int = PAGE_SIZE,
    ) -> None:
        self._source = source
        self._target = target
        self._reading = NamedDatabase(source.database, SOURCE)
        self._writing = NamedDatabase(target.database, TARGET)
        self._advance = advance
        self._page_size = page_size

    async def removals(self) -> int:
        """Return how many deliveries of the target a copy removes, since the source has them no longer.

        Raises StoreRefused if the target holds anything that no copy from this source brought, and
        ConfigurationError if the two are one store. Nothing is changed.
        """
        origin = await self._origin()
        if await self._writing.call(partial(mark, name=self._target.identity_mark)) == origin:
            raise ConfigurationError(f"{TARGET} is {SOURCE} itself or a copy of its files; name another store")
        if foreign := await self._writing.call(partial(foreign_table, origin=origin)):
            raise _refused(*foreign)
        last_given = await self._reading.call(_last_given)
        # Who copies the files of a store and uses both has two with the same identity, and other deliveries.
        last_held = await self._writing.call(_last_seq)
        if last_held > last_given:
            raise _refused(KEYS.name, True)
        return await self._removals() if last_held else 0

    async def _removals(self) -> int:
        removed = 0
        async for after, rows, last in self._pages(KEYS):
            theirs = await self._theirs(KEYS, after, last)
            gone = _keys(KEYS, theirs) - _keys(KEYS, rows)
            if len(set(theirs) - set(rows)) > len(gone):
                raise _refused(KEYS.name, True)
            removed += len(gone)
            self._advance(len(rows))
        return removed

    async def run(self) -> None:
        """Bring the target to what the source has now.

        Raises StoreRefused if the target holds anything that no copy from this source brought, or takes it
        meanwhile.
        """
        origin = await self._origin()
        await self._writing.call(partial(self._begin, origin=origin))
        for table in COPIED:
            await self._copy_table(table, origin)
        heads = await self._reading.call(_heads)
        routed = await self._reading.call(partial(mark, name="routed"))
        lasts = await self._reading.call(lambda one: one.execute(LAST_GIVEN).fetchone())
        await self._writing.call(partial(self._end, origin=origin, heads=heads, routed=routed or 0, lasts=lasts))

    async def differences(self) -> int:
        """Compare both stores, with all bodies byte by byte, and return in how many rows they differ."""
        found = 0
        for table in COPIED:
            async for after, rows, last in self._pages(table):
                theirs = await self._theirs(table, after, last)
                differing = _differing(table, rows, theirs)
                found += len(differing) + len(_keys(table, theirs) - _keys(table, rows))
                if table.has_bodies:
                    found += await self._differing_bodies(table, [row for row in rows if row not in differing])
                self._advance(len(rows))
        sides = (self._reading, self._writing)
        heads = [set(await one.call(_heads)) for one in sides]
        routed = [await one.call(partial(mark, name="routed")) for one in sides]
        return found + len(heads[0] ^ heads[1]) + int(routed[0] != routed[1])

    async def sizes(self) -> tuple[CopySizes, CopySizes]:
        """Return what the source and the target hold."""
        return await sizes_of(self._reading), await sizes_of(self._writing)

    async def _origin(self) -> int:
        found = await self._reading.call(partial(mark, name=self._source.identity_mark))
        if found is None:
            raise StoreRefused(f"{SOURCE} is damaged: nothing in it says which store it is")
        return found

    async def _copy_table(self, table: CopiedTable, origin: int) -> None:
        async for after, rows, last in self._pages(table):
            theirs = await self._theirs(table, after, last)
            removed = _keys(table, theirs) - _keys(table, rows)
            if removed:
                await self._writing.call(partial(self._remove, origin=origin, table=table, keys=sorted(removed)))
            differing = _differing(table, rows, theirs)
            for batch in _batches(table, differing):
                whole = await self._whole(self._source, table, batch) if table.has_bodies else batch
                await self._writing.call(partial(self._write, origin=origin, table=table, rows=whole))
            self._advance(len(rows))

    async def _pages(self, table: CopiedTable) -> AsyncIterator[tuple[_Key, list[_Row], _Key | None]]:
        """Yield pages of the source: the place in front of each, its rows, and its last place; None for the end."""
        after: _Key | None = _first_place(table)
        while after is not None:
            sql = f"{table.page(self._source.dialect, through_end=True)} LIMIT {self._page_size}"
            rows = await self._read(self._reading, sql, _placed("after", after))
            last = _key(table, rows[-1]) if len(rows) == self._page_size else None
            yield after, rows, last
            after = last

    async def _theirs(self, table: CopiedTable, after: _Key, last: _Key | None) -> list[_Row]:
        values = _placed("after", after) | ({} if last is None else _placed("last", last))
        return await self._read(self._writing, table.page(self._target.dialect, through_end=last is None), values)

    async def _whole(self, side: CopySide, table: CopiedTable, rows: Sequence[_Row]) -> list[_Row]:
        ids = side.dialect.array([row[0] for row in rows])
        database = self._reading if side is self._source else self._writing
        whole = await self._read(database, table.with_bodies(side.dialect), {"ids": ids})
        for row in whole:
            decoded(row[table.columns.index("body")], PLAIN, key=str(row[0]))  # an error if it cannot be read
        return whole

    async def _differing_bodies(self, table: CopiedTable, rows: Sequence[_Row]) -> int:
        found = 0
        for batch in _batches(table, rows):
            ours, theirs = [await self._whole(one, table, batch) for one in (self._source, self._target)]
            lengths = {_key(table, row): row for row in ours}
            found += sum(row != lengths[_key(table, row)] for row in theirs if _key(table, row) in lengths)
        return found

    async def _read(self, database: NamedDatabase, sql: str, values: Values) -> list[_Row]:
        return await database.call(lambda connection: connection.execute(sql, values).fetchall())

    @contextmanager
    def _changing(self, connection: SqlConnection, origin: int) -> Iterator[None]:
        """Change the target in one transaction, unless a program uses it: what that stored there must stay."""
        with self._writing.transaction(connection):
            if foreign := foreign_table(connection, origin):
                raise StoreRefused(f"it has {_foreign(*foreign)}: another program uses it, so it is no copy")
            yield

    def _begin(self, connection: SqlConnection, *, origin: int) -> None:
        with self._changing(connection, origin):
            begin_copy(connection, origin)

    def _write(self, connection: SqlConnection, *, origin: int, table: CopiedTable, rows: Sequence[_Row]) -> None:
        with self._changing(connection, origin):
            insert(connection, table.write, [_written(table, row) for row in rows])
            if table.name in COPIED_THROUGH:
                note_copied(connection, table.name, rows[-1][0])

    def _remove(self, connection: SqlConnection, *, origin: int, table: CopiedTable, keys: Sequence[_Key]) -> None:
        with self._changing(connection, origin):
            for key in keys:
                connection.execute(table.remove, dict(zip(table.key, key, strict=True)))

    def _end(
        self, connection: SqlConnection, *, origin: int, heads: Sequence[int], routed: int, lasts: Sequence[int]
    ) -> None:
        """Set what must not be seen before all rows are there."""
        last_seq, _, last_work, last_request, last_action = lasts
        dialect = self._target.dialect
        with self._changing(connection, origin):
            connection.execute(NO_HEADS)
            for start in range(0, len(heads), PAGE_SIZE):
                ids = dialect.array(heads[start : start + PAGE_SIZE])
                connection.execute(set_heads(dialect), {"ids": ids})
            # What was pruned behind the last delivery was routed, so new ones have to come after that mark.
            for table, last in (
                ("deliveries", max(last_seq, routed)),
                ("work_items", last_work),
                ("quarantine", last_request),
                ("actions", last_action),
            ):
                self._target.continue_behind(connection, table, last)
            set_mark(connection, "routed", routed)
            self._target.finish(connection)


def _foreign(table: str, is_copy: bool) -> str:
    """Return what a target has that did not come from the source, as words that follow `TO has`."""
    what = "deliveries" if table == "deliveries" else f"rows in {table}"
    return f"{what} that {SOURCE} does not have" if is_copy else f"{what} that did not come from {SOURCE}"


def _refused(table: str, is_copy: bool) -> StoreRefused:
    return StoreRefused(f"{TARGET} has {_foreign(table, is_copy)}: copy into an empty store. Nothing was changed")


def _last_seq(connection: SqlConnection) -> int:
    return int(connection.execute(LAST_GIVEN).fetchone()[0])


def _last_given(connection: SqlConnection) -> int:
    """Return the last seq that a delivery had; only what was routed can have been pruned."""
    last_seq, routed, *_ = connection.execute(LAST_GIVEN).fetchone()
    return int(max(last_seq, routed))


def _heads(connection: SqlConnection) -> list[int]:
    return [work_id for (work_id,) in connection.execute(HEADS)]


def _first_place(table: CopiedTable) -> _Key:
    return ("",) * len(table.key) if table.name in ("handlers", "schedules", "once_keys") else (0,) * len(table.key)


def _placed(prefix: str, key: _Key) -> Values:
    return {f"{prefix}{at}": value for at, value in enumerate(key)}


def _key(table: CopiedTable, row: _Row) -> _Key:
    return row[: len(table.key)]


def _keys(table: CopiedTable, rows: Sequence[_Row]) -> set[_Key]:
    return {_key(table, row) for row in rows}


def _differing(table: CopiedTable, rows: Sequence[_Row], theirs: Sequence[_Row]) -> list[_Row]:
    known: Mapping[_Key, _Row] = {_key(table, row): row for row in theirs}
    return [row for row in rows if known.get(_key(table, row)) != row]


def _batches(table: CopiedTable, rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    body = table.columns.index("body") if table.has_bodies else None
    return batches(rows, PAGE_SIZE, MAX_BYTES, lambda row: 0 if body is None else int(row[body]))


def _written(table: CopiedTable, row: _Row) -> _Row:
    """Return a row as both kinds of databases take it: one has truth values, and the other numbers for them."""
    if "success" not in table.columns:
        return row
    at = table.columns.index("success")
    success = None if row[at] is None else bool(row[at])
    return (*row[:at], success, *row[at + 1 :])
