"""The end of attempts, inside the queue's transactions."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from receiver.core.claims import Settlement
from receiver.core.clock import to_micros
from receiver.core.types import WorkerId, WorkState
from receiver.stores.sql.activity import SettledBatch
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import Dialect
from receiver.stores.sql.inserting import attempt_row
from receiver.stores.sql.locks import Locks
from receiver.stores.sql.moments import LatestMoment

_Held = tuple[Any, ...]
"""Id, lane and handler of an item that the worker still held. The lane is None without one."""


class SettlingStatements(Protocol):
    """The SQL of ended attempts. `:ids` is an array of the dialect, and `:items` its rows."""

    HOLDERS: str
    """Id, worker, attempts, lane and handler of those of `:ids` that run."""
    FINISH: str
    """Make those of `:ids` done that `:worker` runs as attempt `:number`; returns id, lane and handler of each."""
    SETTLE: str
    """Move `:items`, rows of id, state, due_at, error, whether it holds its lane, and whether its process died."""
    PROMOTE: str
    """Make due at `:now` what comes next in the lanes of `:ids`, where no other item heads the lane."""


class SettlingAlgorithm:
    """The algorithm of settling over the statements of one kind of database."""

    def __init__(
        self,
        statements: SettlingStatements,
        *,
        insert_attempts: Callable[[SqlConnection, Sequence[tuple[object, ...]]], None],
        latest: LatestMoment,
        locks: Locks,
        dialect: Dialect,
    ) -> None:
        self._sql = statements
        self._locks = locks
        self._insert_attempts = insert_attempts
        self._latest = latest
        self._dialect = dialect

    def settle(
        self, connection: SqlConnection, settlements: Sequence[Settlement]
    ) -> tuple[list[bool], SettledBatch]:
        """Record these attempts, at least one.

        Returns for each whether its worker still held it, and what is to be counted of those that were held.
        """
        self._locks.lanes_of(connection, [one.work_id for one in settlements])
        finished, moved = self._finish(connection, settlements), self._move_others(connection, settlements)
        held = finished | moved
        now = max(one.attempt.ended_at for one in settlements)
        self._latest.note(connection, now)
        if in_lanes := [work_id for work_id, lane, _ in held.values() if lane is not None]:
            self.promote(connection, in_lanes, now)
        rows = [attempt_row(settlements[place].work_id, settlements[place].attempt) for place in held]
        self._insert_attempts(connection, rows)
        handlers = [handler for _, _, handler in held.values()]
        batch = SettledBatch(handlers, rows, to_micros(now), successes=len(finished))
        return [place in held for place in range(len(settlements))], batch

    def promote(self, connection: SqlConnection, work_ids: Sequence[int], now: datetime) -> None:
        """Make due what comes next in the lanes of these items, where no other item heads the lane.

        The transaction holds the locks of those lanes since before it changed the items.
        """
        values = {"ids": self._dialect.array(work_ids), "now": to_micros(now)}
        connection.execute(self._sql.PROMOTE, values)

    def _finish(self, connection: SqlConnection, settlements: Sequence[Settlement]) -> dict[int, _Held]:
        """Make done what succeeded; return what the worker still held, by the place.

        Most attempts are the first, so one statement checks and moves them all.
        """
        found: dict[int, _Held] = {}
        for (worker, number), places in _successes(settlements).items():
            values = {"ids": self._dialect.array(list(places)), "worker": worker, "number": number}
            for row in connection.execute(self._sql.FINISH, values).fetchall():
                found[places[row[0]]] = row
        return found

    def _move_others(self, connection: SqlConnection, settlements: Sequence[Settlement]) -> dict[int, _Held]:
        """Move what did not succeed; return what the worker still held, by the place."""
        others = {place: one for place, one in enumerate(settlements) if one.state is not WorkState.DONE}
        found: dict[int, _Held] = {}
        if not others:
            return found
        ids = self._dialect.array([one.work_id for one in others.values()])
        holders = {row[0]: row for row in connection.execute(self._sql.HOLDERS, {"ids": ids})}
        for place, one in others.items():
            work_id, worker, number, *held = holders.get(one.work_id, (None, None, None))
            if (worker, number) == (one.worker, one.attempt.number):
                del holders[one.work_id]
                found[place] = (work_id, *held)
        if found:
            rows = [_row(others[place]) for place in found]
            connection.execute(self._sql.SETTLE, {"items": self._dialect.rows(rows)})
        return found


def _successes(settlements: Sequence[Settlement]) -> Mapping[tuple[WorkerId, int], dict[int, int]]:
    """Return the places of the successes, by worker and number of the attempt, and then by work item.

    Of an attempt that ended twice only the first end counts: the record of attempts would refuse the second, and
    the whole batch with it.
    """
    found: dict[tuple[WorkerId, int], dict[int, int]] = {}
    others: set[tuple[WorkerId, int, int]] = set()
    for place, one in enumerate(settlements):
        if one.state is not WorkState.DONE:
            others.add((one.worker, one.attempt.number, one.work_id))
        elif (one.worker, one.attempt.number, one.work_id) not in others:
            found.setdefault((one.worker, one.attempt.number), {}).setdefault(one.work_id, place)
    return found


def _row(one: Settlement) -> tuple[object, ...]:
    due_at = to_micros(one.due_at) if one.state is WorkState.WAITING else None
    return one.work_id, one.state, due_at, one.attempt.error, int(one.holds_lane), int(one.died)
