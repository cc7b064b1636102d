"""New work items: where each one begins, how it is written, and the latest moment that the store knows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from receiver.core.claims import Lease
from receiver.core.clock import from_micros, to_micros
from receiver.core.rules import initial_state, set_back_by
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.work import NewWork, RecordedRun
from receiver.core.work_states import LANE_HEADS
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import Dialect, Insert, Locks, attempt_row
from receiver.stores.sql.rows import switches
from receiver.stores.sql.statements.writing import Statements


class LatestMoment:
    """Notes when items are made, become due or end, and moves what waits back with the clock.

    Whoever makes an item due at a moment notes the moment. Without that the item would wait until a clock that was
    set back comes there again.
    """

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def note(self, connection: SqlConnection, now: datetime) -> None:
        """Note the moment of a change, inside its transaction."""
        connection.execute(self._sql.note_time, {"now": to_micros(now)})

    def is_ahead(self, latest: int | None, now: datetime) -> bool:
        """Return whether the clock was set back since the latest moment, as `LATEST` returns it."""
        return _set_back_by(latest, now) > 0

    def follow_back(self, connection: SqlConnection, now: datetime) -> None:
        """Move everything that waits, if the clock was set back."""
        row = connection.execute(self._sql.latest, {}).fetchone()
        if by := _set_back_by(None if row is None else row[0], now):
            for statement in self._sql.move_back:
                connection.execute(statement, {"now": to_micros(now), "by": by})


def _set_back_by(latest: int | None, now: datetime) -> int:
    """Return how many microseconds the clock was set back."""
    return 0 if latest is None else set_back_by(from_micros(latest), now) // timedelta(microseconds=1)


InsertWithIds = Callable[[SqlConnection, Callable[[int], str], Sequence[tuple[object, ...]]], Sequence[int]]
"""Inserts work items by the statement for so many rows and returns their ids, in the order of the rows."""
NewRow = tuple[int, HandlerName, str | None, int, int, str]
"""Delivery, handler, lane, whether it heads the lane, whether it has started, and state of a new work item."""
InsertNew = Callable[[SqlConnection, str, Sequence[NewRow], Mapping[str, object]], Sequence[int]]
"""Inserts work items by the statement, with the values that they share, and returns their ids in the same order."""


class WorkRows:
    """Makes work items over the statements of one kind of database."""

    def __init__(
        self,
        statements: Statements,
        *,
        insert: Insert,
        insert_with_ids: InsertWithIds,
        insert_new: InsertNew,
        latest: LatestMoment,
        locks: Locks,
        dialect: Dialect,
    ) -> None:
        self._sql = statements
        self._insert = insert
        self._locks = locks
        self._insert_with_ids = insert_with_ids
        self._insert_new = insert_new
        self._latest = latest
        self._dialect = dialect

    def make(
        self,
        connection: SqlConnection,
        work: Sequence[NewWork],
        *,
        lease: Lease | None,
        now: datetime,
        action: int | None = None,
    ) -> list[tuple[int, WorkState]]:
        """Make work items inside a transaction; return the id of each and the state in which it begins.

        Without a lease nothing may ask to be claimed. `action` is the recorded action that made them.
        """
        states = self._initial_states(connection, work)
        if work:  # after the locks of handlers: attempts that end take both in this order
            self._latest.note(connection, now)
        ids: list[int] = []
        for _, run in groupby(zip(work, states, strict=True), _shared):
            alike = list(run)
            rows = [_new_row(one, state) for one, state in alike]
            shared = {**_shared_values(alike[0][0], lease, now), "action": action}
            ids += self._insert_new(connection, self._sql.insert_work, rows, shared)
        return list(zip(ids, states, strict=True))

    def record(self, connection: SqlConnection, results: Sequence[RecordedRun]) -> None:
        """Write down work items that have run already, with their attempts, inside a transaction."""
        if not results:
            return
        rows = [
            (one.seq, one.handler, one.state, 1, one.attempt.trigger, one.attempt.error)  # made by one attempt
            for one in results
        ]
        ids = self._insert_with_ids(connection, self._sql.record_work, rows)
        attempts = [attempt_row(work_id, one.attempt) for work_id, one in zip(ids, results, strict=True)]
        self._insert(connection, self._sql.insert_attempts, attempts)

    def with_bodies(self, connection: SqlConnection, seqs: Sequence[int]) -> set[int]:
        """Return those deliveries that are stored with their bodies."""
        values = {"seqs": self._dialect.array(sorted(set(seqs)))}
        return {seq for (seq,) in connection.execute(self._sql.with_bodies, values)}

    def _initial_states(self, connection: SqlConnection, work: Sequence[NewWork]) -> list[WorkState]:
        """Return the state in which each item begins."""
        busy = self._lane_heads(connection, {(one.handler, one.lane) for one in work if one.lane is not None})
        off = switches(connection)
        states = []
        for one in work:
            lane = (one.handler, one.lane)
            state = initial_state(one, off.get(one.handler, HandlerSwitch.ON), lane_busy=lane in busy)
            if _heads_lane(one, state):
                busy.add(lane)
            states.append(state)
        return states

    def _lane_heads(
        self, connection: SqlConnection, lanes: Collection[tuple[HandlerName, str | None]]
    ) -> set[tuple[HandlerName, str | None]]:
        """Return those of these lanes that have a head. No other transaction moves one before this ends."""
        if not lanes:
            return set()
        self._locks.handlers(connection, {handler for handler, _ in lanes})
        values = {"lanes": self._dialect.rows(sorted(lanes))}
        return set(connection.execute(self._sql.lane_heads, values).fetchall())


def _new_row(one: NewWork, state: WorkState) -> NewRow:
    starts = one.starts and state is WorkState.RUNNING
    return one.seq, one.handler, one.lane, int(_heads_lane(one, state)), int(starts), str(state)


def _shared(item: tuple[NewWork, WorkState]) -> tuple[object, ...]:
    """Return what `_shared_values` depends on. It is the same for most of a batch."""
    one, _ = item
    return one.trigger, one.due_at, one.hold


def _shared_values(one: NewWork, lease: Lease | None, now: datetime) -> Mapping[str, object]:
    hold = one.hold
    return {
        "trigger": one.trigger,
        "due_at": to_micros(one.due_at or now),
        "lease_until": None if lease is None else to_micros(lease.until),
        "worker": None if lease is None else lease.worker,
        "recheck_at": None if hold is None else to_micros(hold.check_at),
        "hold_until": None if hold is None else to_micros(hold.until),
        "note": None if hold is None else hold.note,
    }


def _heads_lane(one: NewWork, state: WorkState) -> bool:
    return one.lane is not None and state in LANE_HEADS
