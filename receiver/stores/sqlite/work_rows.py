"""New work items in a SQLite store: where each one begins, and how it is written."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import chain

from receiver.core.claims import Lease
from receiver.core.clock import to_micros
from receiver.core.rules import initial_state
from receiver.core.types import HandlerSwitch, WorkState
from receiver.core.work import Attempt, NewWork, RecordedRun
from receiver.stores.sqlite import claims, statements

_ROWS = 100
"""Rows of one statement: more cost as much for each, and the statements of every length are kept compiled."""


def insert(
    connection: sqlite3.Connection, statement: Callable[[int], str], rows: Sequence[tuple[object, ...]]
) -> None:
    """Insert rows, many to a statement."""
    for start in range(0, len(rows), _ROWS):
        together = rows[start : start + _ROWS]
        connection.execute(statement(len(together)), tuple(chain.from_iterable(together)))


def make(
    connection: sqlite3.Connection, work: Sequence[NewWork], *, lease: Lease | None, now: datetime
) -> list[tuple[int, WorkState]]:
    """Make work items inside a transaction; return the id of each and the state in which it begins.

    Without a lease nothing may ask to be claimed.
    """
    states = _places(connection, work)
    rows = [_new_row(*one, lease, now) for one in zip(work, states, strict=True)]
    insert(connection, statements.insert_work, rows)
    return list(zip(_last_ids(connection, len(work)), states, strict=True))


def record(connection: sqlite3.Connection, results: Sequence[RecordedRun]) -> None:
    """Write down work items that have run already, with their attempts, inside a transaction."""
    if not results:
        return
    rows = [(one.seq, one.handler, one.state, 1, one.attempt.trigger, one.attempt.error) for one in results]
    insert(connection, statements.record_work, rows)
    ids = _last_ids(connection, len(results))
    attempts = [attempt_row(work_id, one.attempt) for work_id, one in zip(ids, results, strict=True)]
    insert(connection, statements.insert_attempts, attempts)


def attempt_row(work_id: int, attempt: Attempt) -> tuple[object, ...]:
    """Return the row of an attempt that has ended."""
    return (
        work_id,
        attempt.number,
        attempt.trigger,
        None if attempt.started_at is None else to_micros(attempt.started_at),
        to_micros(attempt.ended_at),
        attempt.outcome,
        attempt.error,
        attempt.traceback,
        int(attempt.overdue),
    )


def with_bodies(connection: sqlite3.Connection, seqs: Sequence[int]) -> set[int]:
    """Return those deliveries that are stored with their bodies."""
    return {seq for (seq,) in connection.execute(statements.WITH_BODIES, (json.dumps(sorted(set(seqs))),))}


def _last_ids(connection: sqlite3.Connection, count: int) -> range:
    # Under the write lock ids follow each other.
    (last,) = connection.execute("SELECT last_insert_rowid()").fetchone()
    return range(last - count + 1, last + 1)


def _places(connection: sqlite3.Connection, work: Sequence[NewWork]) -> list[WorkState]:
    """Return the state in which each item begins."""
    off = claims.switches(connection)
    lanes = json.dumps([(one.handler, one.lane) for one in work if one.lane is not None])
    busy = set(connection.execute(statements.LANE_HEADS, {"lanes": lanes}).fetchall())
    states = []
    for one in work:
        lane = (one.handler, one.lane)
        state = initial_state(one, off.get(one.handler, HandlerSwitch.ON), lane_busy=lane in busy)
        if _heads_lane(one, state):
            busy.add(lane)
        states.append(state)
    return states


def _new_row(one: NewWork, state: WorkState, lease: Lease | None, now: datetime) -> tuple[object, ...]:
    holder = lease if state is WorkState.RUNNING else None
    running = holder is not None
    hold = one.hold
    return (
        *(one.seq, one.handler, state, int(running), int(running and one.starts), one.trigger),
        to_micros(now) if state is WorkState.WAITING else None,
        to_micros(holder.until) if holder else None,
        to_micros(hold.look_at) if hold and state is WorkState.HELD else None,
        to_micros(hold.until) if hold else None,
        *(holder.worker if holder else None, one.lane, int(_heads_lane(one, state))),
        hold.note if hold else None,
    )


def _heads_lane(one: NewWork, state: WorkState) -> bool:
    return one.lane is not None and state in (WorkState.WAITING, WorkState.RUNNING)
