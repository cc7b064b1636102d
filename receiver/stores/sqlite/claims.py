"""What a claim reads and writes, statement by statement, inside the queue's transactions."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from receiver.core.batching import BatchSize
from receiver.core.claims import ClaimLimits, HandlerClaim
from receiver.core.clock import from_micros, to_micros
from receiver.core.rules import Pace
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.work import LOST
from receiver.stores.sqlite import statements

MAX_ITEMS = 1_000
"""Rows that one transaction skips or takes from dead workers for a handler: acks wait for the write lock."""


def switches(connection: sqlite3.Connection) -> Mapping[HandlerName, HandlerSwitch]:
    """Return the handlers that are not on."""
    return {name: HandlerSwitch(switch) for name, switch in connection.execute(statements.SWITCHES)}


def claimable(connection: sqlite3.Connection, claimants: Sequence[HandlerClaim]) -> list[HandlerClaim]:
    """Return those whose handlers are neither paused nor disabled."""
    off = switches(connection)
    return [one for one in claimants if one.handler not in off]


def anything_to_do(
    connection: sqlite3.Connection, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, now: datetime
) -> bool:
    """Tell whether a claim would change anything. This takes no lock, and most often the answer is no."""
    if _leases_ended(connection, now, limit=1):
        return True
    off = switches(connection)
    for one in claimants:
        switch = off.get(one.handler, HandlerSwitch.ON)
        if switch is HandlerSwitch.ON and _due(connection, one, wanted, now, limit=1):
            return True
        if switch is HandlerSwitch.DISABLED and _skippable(connection, one.handler):
            return True
    return False


def tidy(connection: sqlite3.Connection, claimants: Sequence[HandlerClaim], now: datetime) -> None:
    """Take back what dead workers held, and skip what waits for disabled handlers."""
    if lost := _leases_ended(connection, now, limit=MAX_ITEMS):
        values = {"ids": json.dumps(lost), "now": to_micros(now), "error": LOST}
        connection.execute(statements.LOSE_ATTEMPTS, values)
        connection.execute(statements.LOSE, values)
    off = switches(connection)
    for one in claimants:
        if off.get(one.handler) is HandlerSwitch.DISABLED:
            _skip(connection, one.handler)


def _skippable(connection: sqlite3.Connection, handler: HandlerName) -> bool:
    (found,) = connection.execute(statements.SKIPPABLE, {"handler": handler}).fetchone()
    return bool(found)


def _skip(connection: sqlite3.Connection, handler: HandlerName) -> None:
    """Skip from the ends of the lanes: one that is queued always has a head before it, which it waits for."""
    for state in (WorkState.QUEUED, WorkState.WAITING, WorkState.HELD):
        skipped = connection.execute(statements.skip(state), (handler, MAX_ITEMS)).rowcount
        if skipped == MAX_ITEMS:
            return


def choose(
    connection: sqlite3.Connection, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, now: datetime
) -> list[int]:
    """Return the ids to claim, the longest due first within each handler, and note what their rates allow next."""
    ids: list[int] = []
    taken = BatchSize(wanted.limit, wanted.max_bytes)
    for one in claimable(connection, claimants):
        due = _due(connection, one, wanted, now, limit=wanted.limit - len(ids))
        chosen = [work_id for work_id, _ in takewhile(lambda row: taken.take(row[1]), due)]
        ids += chosen
        if one.interval is not None and chosen:
            until = _pace(connection, one.handler, one.interval).after(len(chosen), now)
            connection.execute(statements.PACE, (one.handler, to_micros(until)))
        if len(chosen) < len(due) or taken.is_full:
            break
    return ids


def next_due(connection: sqlite3.Connection, claimants: Sequence[HandlerClaim], now: datetime) -> datetime | None:
    """Return when one of these has something due, to be skipped or to look at, or anybody's lease ends."""
    off = switches(connection)
    moments = [_moment(*connection.execute(statements.NEXT_LEASE_END))]
    for one in claimants:
        switch = off.get(one.handler, HandlerSwitch.ON)
        if switch is HandlerSwitch.ON:
            waiting, held = map(_moment, connection.execute(statements.NEXT_DUE, (one.handler,) * 2))
            if waiting is not None and one.interval is not None:
                waiting = max(waiting, _pace(connection, one.handler, one.interval).begin_from(now))
            moments += [waiting, held]
        elif switch is HandlerSwitch.DISABLED and _skippable(connection, one.handler):
            moments.append(now)
    return min((moment for moment in moments if moment is not None), default=None)


def _moment(row: tuple[int | None]) -> datetime | None:
    return None if row[0] is None else from_micros(row[0])


def _leases_ended(connection: sqlite3.Connection, now: datetime, *, limit: int) -> list[int]:
    return [work_id for (work_id,) in connection.execute(statements.LEASES_ENDED, (to_micros(now), limit))]


def _due(
    connection: sqlite3.Connection, claimant: HandlerClaim, wanted: ClaimLimits, now: datetime, *, limit: int
) -> list[tuple[int, int]]:
    """Return id and size of what may be claimed within the handler's limits."""
    limit = min(limit, claimant.most)
    if claimant.concurrency is not None:
        (running,) = connection.execute(statements.RUNNING, (claimant.handler,)).fetchone()
        limit = min(limit, claimant.concurrency - running)
    if claimant.interval is not None:
        limit = min(limit, _pace(connection, claimant.handler, claimant.interval).allows(now))
    if limit <= 0:
        return []
    statement = statements.DUE_SUSPECTS if wanted.suspects else statements.DUE
    values = {"handler": claimant.handler, "now": to_micros(now), "limit": limit}
    return connection.execute(statement, values).fetchall()


def _pace(connection: sqlite3.Connection, handler: HandlerName, interval: timedelta) -> Pace:
    row = connection.execute(statements.PACED_UNTIL, (handler,)).fetchone()
    return Pace(interval, from_micros(row[0] if row else 0))
