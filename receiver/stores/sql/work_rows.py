"""New work items: where each one begins, and how it is written."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Protocol

from receiver.core.claims import Lease
from receiver.core.clock import to_micros
from receiver.core.rules import initial_state
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.work import NewWork, RecordedRun
from receiver.core.work_states import LANE_HEADS
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.inserting import Insert, attempt_row
from receiver.stores.sql.locks import Locks
from receiver.stores.sql.moments import LatestMoment
from receiver.stores.sql.switches import switches

InsertWithIds = Callable[[SqlConnection, Callable[[int], str], Sequence[tuple[object, ...]]], Sequence[int]]
"""Inserts work items and returns their ids, in the order of the rows."""


class RoutingStatements(Protocol):
    """The SQL of new work items. `:seqs` and `:keys` are arrays of the dialect, and `:lanes` its rows."""

    ADVANCE_ROUTED: str
    """Mark deliveries as routed `:through` a seq, if the mark is still at `:after`.

    A store that may lose some of what was read marks none unless it has all `:seqs` with their `:keys`.
    """
    UNROUTED: str
    """The columns of the deliveries behind `:after`, at most `:limit`, and perhaps only about `:max_bytes`."""
    ANY_BACKFILLED: str
    BACKFILLED: str
    """Those of `:keys` whose delivery came by backfill."""
    LANE_HEADS: str
    """Those of `:lanes`, pairs of handler and lane, that have a head."""
    WITH_BODIES: str
    """Those of `:seqs` that have their bodies."""

    def insert_work(self, rows: int) -> str:
        """Return the statement that inserts so many rows of `WorkRows`."""

    def record_work(self, rows: int) -> str:
        """Return the statement that inserts so many items which have run already."""

    def insert_attempts(self, rows: int) -> str:
        """Return the statement that inserts so many rows of `inserting.attempt_row`."""


class WorkRows:
    """Makes work items over the statements of one kind of database."""

    def __init__(
        self,
        statements: RoutingStatements,
        *,
        insert: Insert,
        insert_with_ids: InsertWithIds,
        latest: LatestMoment,
        locks: Locks,
        dialect: Dialect,
    ) -> None:
        self._sql = statements
        self._insert = insert
        self._locks = locks
        self._insert_with_ids = insert_with_ids
        self._latest = latest
        self._dialect = dialect

    def make(
        self, connection: SqlConnection, work: Sequence[NewWork], *, lease: Lease | None, now: datetime
    ) -> list[tuple[int, WorkState]]:
        """Make work items inside a transaction; return the id of each and the state in which it begins.

        Without a lease nothing may ask to be claimed.
        """
        states = self._initial_states(connection, work)
        if work:  # behind the locks of handlers: attempts that end take both in this order
            self._latest.note(connection, now)
        rows = [_new_row(*one, lease, now) for one in zip(work, states, strict=True)]
        ids = self._insert_with_ids(connection, self._sql.insert_work, rows)
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
        return {seq for (seq,) in connection.execute(self._sql.WITH_BODIES, values)}

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
        return set(connection.execute(self._sql.LANE_HEADS, values).fetchall())


def _new_row(one: NewWork, state: WorkState, lease: Lease | None, now: datetime) -> tuple[object, ...]:
    holder = lease if state is WorkState.RUNNING else None
    running = holder is not None
    hold = one.hold
    return (
        *(one.seq, one.handler, state, int(running), int(running and one.starts), one.trigger),
        to_micros(one.due_at or now) if state is WorkState.WAITING else None,
        to_micros(holder.until) if holder else None,
        to_micros(hold.look_at) if hold and state is WorkState.HELD else None,
        to_micros(hold.until) if hold else None,
        *(holder.worker if holder else None, one.lane, int(_heads_lane(one, state))),
        hold.note if hold else None,
    )


def _heads_lane(one: NewWork, state: WorkState) -> bool:
    return one.lane is not None and state in LANE_HEADS
