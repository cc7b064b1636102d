"""Copy one SQL store into another, row by row, while programs may use the first.

Each page of rows is compared with that of the target, and only what differs is written. So a copy that was stopped,
or whose source has changed since, goes on with the same call, and a target that is equal is not written at all.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from receiver.core.batching import batches
from receiver.errors import StoreRefused
from receiver.stores.sql.compression import PLAIN, decoded
from receiver.stores.sql.connection import SqlConnection, SqlDatabase, Values
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.inserting import insert
from receiver.stores.sql.named_errors import NamedDatabase
from receiver.stores.sql.statements import copying as statements
from receiver.stores.sql.statements.copying import CopiedTable

PAGE_SIZE = 1_000
MAX_BYTES = 4 * 1024 * 1024
"""Rows that are compared at one time, and bytes of bodies that one transaction writes."""
SOURCE, TARGET = "FROM", "TO"
"""What the two stores are called in errors, as in the help of the command."""
_COPIED_MARK = "copied"
"""The last seq that a copy wrote. If there is a later one, the target has taken deliveries of its own."""

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

    def continue_behind(self, connection: SqlConnection, table: str, last: int) -> None:
        """Let the numbers of new rows of a table begin behind this one, inside a transaction."""

    def finish(self, connection: SqlConnection) -> None:
        """Make what this kind of store derives from the copied rows, inside a transaction."""


@dataclass(frozen=True, slots=True)
class CopySizes:
    """What a store holds."""

    deliveries: int
    bytes: int
    work_items: int
    quarantined: int


class StoreCopy:
    """A copy from a source to a target. `advance` is told how many rows have been compared."""

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

    async def require_free_target(self) -> None:
        """Raise StoreRefused if the target holds deliveries that no copy from this source brought."""
        last = await self._writing.call(_last_seq)
        copied = await self._writing.call(partial(_mark, name=_COPIED_MARK))
        rows = [await self._read(one, statements.KEY_AT, {"seq": last}) for one in (self._reading, self._writing)]
        is_other = bool(rows[0]) and rows[0] != rows[1]  # without a row, the source has pruned it since
        if last and (last > (copied or 0) or is_other):
            raise StoreRefused(
                f"{TARGET} has deliveries that {SOURCE} does not have: copy into an empty store. "
                "Nothing was changed"
            )

    async def run(self) -> None:
        """Bring the target to what the source has now."""
        for table in statements.COPIED:
            await self._copy_table(table)
        heads = await self._reading.call(_heads)
        routed = await self._reading.call(partial(_mark, name="routed"))
        lasts = await self._reading.call(lambda one: one.execute(statements.LAST_GIVEN).fetchone())
        await self._writing.call(partial(self._end, heads=heads, routed=routed or 0, lasts=lasts))

    async def differences(self) -> int:
        """Compare both stores, with all bodies byte by byte, and return in how many rows they differ."""
        found = 0
        for table in statements.COPIED:
            async for after, rows, last in self._pages(table):
                theirs = await self._theirs(table, after, last)
                differing = _differing(table, rows, theirs)
                found += len(differing) + len(_keys(table, theirs) - _keys(table, rows))
                if table.has_bodies:
                    found += await self._differing_bodies(table, [row for row in rows if row not in differing])
                self._advance(len(rows))
        sides = (self._reading, self._writing)
        heads = [set(await one.call(_heads)) for one in sides]
        routed = [await one.call(partial(_mark, name="routed")) for one in sides]
        return found + len(heads[0] ^ heads[1]) + int(routed[0] != routed[1])

    async def sizes(self) -> tuple[CopySizes, CopySizes]:
        """Return what the source and the target hold."""
        source, target = [
            CopySizes(*map(int, await one.call(lambda found: found.execute(statements.SIZES).fetchone())))
            for one in (self._reading, self._writing)
        ]
        return source, target

    async def _copy_table(self, table: CopiedTable) -> None:
        async for after, rows, last in self._pages(table):
            theirs = await self._theirs(table, after, last)
            removed = _keys(table, theirs) - _keys(table, rows)
            if removed:
                await self._writing.call(partial(self._remove, table=table, keys=sorted(removed)))
            differing = _differing(table, rows, theirs)
            for batch in _batches(table, differing):
                whole = await self._whole(self._source, table, batch) if table.has_bodies else batch
                await self._writing.call(partial(self._write, table=table, rows=whole))
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

    def _write(self, connection: SqlConnection, *, table: CopiedTable, rows: Sequence[_Row]) -> None:
        with self._writing.transaction(connection):
            insert(connection, table.write, [_written(table, row) for row in rows])
            if table.name == "deliveries":
                last = max(rows[-1][0], _mark(connection, name=_COPIED_MARK) or 0)
                connection.execute(statements.SET_MARK, {"name": _COPIED_MARK, "value": last})

    def _remove(self, connection: SqlConnection, *, table: CopiedTable, keys: Sequence[_Key]) -> None:
        with self._writing.transaction(connection):
            for key in keys:
                connection.execute(table.remove, dict(zip(table.key, key, strict=True)))

    def _end(self, connection: SqlConnection, *, heads: Sequence[int], routed: int, lasts: Sequence[int]) -> None:
        """Set what must not be seen before all rows are there."""
        last_seq, _, last_work, last_request, last_action = lasts
        dialect = self._target.dialect
        with self._writing.transaction(connection):
            connection.execute(statements.NO_HEADS)
            for start in range(0, len(heads), PAGE_SIZE):
                ids = dialect.array(heads[start : start + PAGE_SIZE])
                connection.execute(statements.set_heads(dialect), {"ids": ids})
            # What was pruned behind the last delivery was routed, so new ones have to lie behind that mark.
            for table, last in (
                ("deliveries", max(last_seq, routed)),
                ("work_items", last_work),
                ("quarantine", last_request),
                ("actions", last_action),
            ):
                self._target.continue_behind(connection, table, last)
            connection.execute(statements.SET_MARK, {"name": "routed", "value": routed})
            self._target.finish(connection)


def _last_seq(connection: SqlConnection) -> int:
    return int(connection.execute(statements.LAST_GIVEN).fetchone()[0])


def _mark(connection: SqlConnection, *, name: str) -> int | None:
    row = connection.execute(statements.MARK, {"name": name}).fetchone()
    return None if row is None else int(row[0])


def _heads(connection: SqlConnection) -> list[int]:
    return [work_id for (work_id,) in connection.execute(statements.HEADS)]


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
