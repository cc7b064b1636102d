"""The SQL that copies a store row by row, table by table."""

from dataclasses import dataclass
from functools import cached_property

from receiver.stores.sql.dialect import Dialect
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
        """Return rows behind the place `:after0` and so on, with the lengths of bodies in place of the bodies.

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
"""What tells one delivery from another."""

COPIED_FROM = "copied_from"
"""The mark of a copy that says what identifies its source."""

_NUMBERED = {"deliveries": "seq", "quarantine": "id", "work_items": "id", "actions": "id"}
"""Tables whose rows get numbers that grow, so that those behind the last copied one are not copied."""

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
