"""Work items in a SQL store: made when a delivery is routed, and claimed, inside the transactions of the queue."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

from receiver.core.batches import BatchSize
from receiver.core.claims import ClaimLimits, HandlerClaim, Lease, WorkItem
from receiver.core.clock import from_micros, to_micros
from receiver.core.rules import Pace, followers_each, initial_state, set_back_by
from receiver.core.types import HandlerName, HandlerSwitch, Trigger, WorkState
from receiver.core.work import LOST, NewWork, RecordedRun
from receiver.core.work_states import LANE_HEADS, SKIPPABLE
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import Dialect, Insert, Locks, attempt_row
from receiver.stores.sql.rows import delivery_or_reason, switches
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


MAX_ITEMS = 1_000
"""Rows that one transaction skips or takes from dead workers for a handler: acks wait for the write lock."""


@dataclass(frozen=True, slots=True)
class ClaimLook:
    """What a claim has to do besides claiming: take back lost items, and follow a clock that was set back."""

    any_lost: bool
    is_ahead: bool


@dataclass(frozen=True, slots=True)
class ClaimedRows:
    """What was claimed, in the order in which it is to run; the rows as well if they have been read."""

    ids: Sequence[int] = ()
    rows: Sequence[Any] | None = None


class Claims:
    """The algorithm of claims over the statements of one kind of database."""

    def __init__(self, statements: Statements, latest: LatestMoment, locks: Locks, dialect: Dialect) -> None:
        self._sql = statements
        self._locks = locks
        self._latest = latest
        self._dialect = dialect

    def look(
        self,
        connection: SqlConnection,
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
        now: datetime,
        steady: datetime,
    ) -> ClaimLook | None:
        """Return what a claim would have to do, None for nothing. This takes no lock, and it is mostly nothing."""
        any_lost, latest = connection.execute(self._sql.look, {"steady": to_micros(steady)}).fetchone()
        look = ClaimLook(bool(any_lost), self._latest.is_ahead(latest, now))
        if look.any_lost or look.is_ahead or self._any_due(connection, claimants, wanted, now):
            return look
        return None

    def _any_due(
        self, connection: SqlConnection, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, now: datetime
    ) -> bool:
        """Return whether there is something to claim or to skip."""
        due = self._sql.due_suspects if wanted.suspects else self._sql.due
        off = switches(connection)
        for one in claimants:
            switch = off.get(one.handler, HandlerSwitch.ON)
            if switch is HandlerSwitch.ON and self._due(connection, due, one, now, limit=1):
                return True
            if switch is HandlerSwitch.DISABLED and self._skippable(connection, one.handler):
                return True
        return False

    def tidy(
        self,
        connection: SqlConnection,
        look: ClaimLook,
        claimants: Sequence[HandlerClaim],
        now: datetime,
        steady: datetime,
    ) -> Sequence[HandlerClaim]:
        """Follow a clock that was set back, take back lost items, and skip what waits for disabled handlers.

        Returns those whose handlers are neither paused nor disabled.
        """
        disabled = _disabled(claimants, switches(connection))
        limited = {one.handler for one in claimants if one.concurrency is not None or one.interval is not None}
        self._locks.handlers(connection, disabled | limited)
        # Asked again: an operator may have been first, and what is made since then must not be skipped.
        off = switches(connection)
        disabled &= _disabled(claimants, off)
        if look.is_ahead:
            self._latest.follow_back(connection, now)
        if look.any_lost:
            self._take_back(connection, now, steady)
        for handler in sorted(disabled):
            self._skip(connection, handler)
        return [one for one in claimants if one.handler not in off]

    def claim(
        self,
        connection: SqlConnection,
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
        lease: Lease,
        now: datetime,
    ) -> ClaimedRows:
        """Claim what is due of these handlers, which may run."""
        chosen = self._choose(connection, claimants, wanted, now)
        if not chosen:
            return ClaimedRows()
        values = {
            "ids": self._dialect.array(chosen),
            "starting": self._dialect.array(chosen[: wanted.starting]),
            "worker": lease.worker,
            "until": to_micros(lease.until),
        }
        claimed = connection.execute(self._sql.claim, values)
        return ClaimedRows(chosen, claimed.fetchall() if self._sql.claim_returns else None)

    def read(self, connection: SqlConnection, claimed: ClaimedRows) -> list[WorkItem]:
        """Return claimed items with their deliveries."""
        if claimed.rows is None:
            return self._items(connection, claimed.ids)
        return _in_order(claimed.ids, claimed.rows)

    def with_followers(
        self,
        connection: SqlConnection,
        items: Sequence[WorkItem],
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
    ) -> Sequence[WorkItem]:
        """Return claimed items with the followers for which the claim has room."""
        wanting = {one.handler for one in claimants if one.followers}
        heads = [one.id for one in items if one.in_lane and one.handler in wanting]
        if not (each := followers_each(wanted, len(items), len(heads))):
            return items
        taken = BatchSize(
            wanted.limit, wanted.max_bytes, len(items), sum([len(one.source.delivery.body) for one in items])
        )
        behind: dict[int, list[int]] = {}
        rows = connection.execute(self._sql.queued_behind, {"ids": self._dialect.array(heads), "each": each})
        for head, of_lane in groupby(rows, itemgetter(0)):
            fresh = takewhile(lambda row: row[2] == 0 and taken.take(row[3]), of_lane)
            behind[head] = [work_id for _, work_id, *_ in fresh]
        ids = [work_id for followers in behind.values() for work_id in followers]
        found = {item.id: item for item in self._items(connection, ids)}
        return [
            one._replace(
                # An operator may have buried one meanwhile, and it may be pruned.
                followers=tuple(
                    [found[work_id] for work_id in takewhile(found.__contains__, behind.get(one.id, ()))]
                )
            )
            for one in items
        ]

    def _items(self, connection: SqlConnection, ids: Sequence[int]) -> list[WorkItem]:
        if not ids:
            return []
        return _in_order(ids, connection.execute(self._sql.items, {"ids": self._dialect.array(ids)}))

    def suspect_due(self, connection: SqlConnection, claimants: Sequence[HandlerClaim], now: datetime) -> bool:
        """Return whether an item is due that may have killed its worker."""
        return any(
            connection.execute(self._sql.suspect_due, {"handler": one.handler, "now": to_micros(now)}).fetchone()
            for one in _claimable(connection, claimants)
        )

    def next_due(
        self, connection: SqlConnection, claimants: Sequence[HandlerClaim], now: datetime, steady: datetime
    ) -> datetime | None:
        """Return when one of these has something due, to be skipped or to check, or anybody's lease ends."""
        off = switches(connection)
        lease_end = _moment(*connection.execute(self._sql.next_lease_end))
        moments = [None if lease_end is None else now + (lease_end - steady)]
        for one in claimants:
            switch = off.get(one.handler, HandlerSwitch.ON)
            if switch is HandlerSwitch.ON:
                rows = connection.execute(self._sql.next_due, {"handler": one.handler})
                waiting, held = map(_moment, rows)
                if waiting is not None and self._room(connection, one) <= 0:
                    waiting = None
                elif waiting is not None and one.interval is not None:
                    waiting = max(waiting, self._pace(connection, one.handler, one.interval).begin_from(now))
                moments += [waiting, held]
            elif switch is HandlerSwitch.DISABLED and self._skippable(connection, one.handler):
                moments.append(now)
        return min((moment for moment in moments if moment is not None), default=None)

    def _choose(
        self, connection: SqlConnection, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, now: datetime
    ) -> list[int]:
        """Return the ids to claim, and note what their handlers' rates allow next.

        Within each handler the longest due comes first.
        """
        take = self._sql.take_due_suspects if wanted.suspects else self._sql.take_due
        ids: list[int] = []
        taken = BatchSize(wanted.limit, wanted.max_bytes)
        for one in claimants:
            due = self._due(connection, take, one, now, limit=wanted.limit - len(ids))
            chosen = [work_id for work_id, _ in takewhile(lambda row: taken.take(row[1]), due)]
            ids += chosen
            if one.interval is not None and chosen:
                until = self._pace(connection, one.handler, one.interval).after(len(chosen), now)
                connection.execute(self._sql.pace, {"handler": one.handler, "until": to_micros(until)})
            if len(chosen) < len(due) or taken.is_full:
                break
        return ids

    def _room(self, connection: SqlConnection, claimant: HandlerClaim) -> int:
        """Return how many items may be claimed by the limits of this claimant and of all workers."""
        if claimant.concurrency is None or claimant.most <= 0:
            return claimant.most
        (running,) = connection.execute(self._sql.running, {"handler": claimant.handler}).fetchone()
        return min(claimant.most, claimant.concurrency - int(running))

    def _due(
        self,
        connection: SqlConnection,
        statement: str,
        claimant: HandlerClaim,
        now: datetime,
        *,
        limit: int,
    ) -> list[tuple[int, int]]:
        """Return id and size of what may be claimed within the handler's limits."""
        limit = min(limit, self._room(connection, claimant))
        if claimant.interval is not None:
            limit = min(limit, self._pace(connection, claimant.handler, claimant.interval).allows(now))
        if limit <= 0:
            return []
        values = {"handler": claimant.handler, "now": to_micros(now), "limit": limit}
        return connection.execute(statement, values).fetchall()

    def _pace(self, connection: SqlConnection, handler: HandlerName, interval: timedelta) -> Pace:
        row = connection.execute(self._sql.paced_until, {"handler": handler}).fetchone()
        return Pace(interval, from_micros(row[0] if row else 0))

    def _take_back(self, connection: SqlConnection, now: datetime, steady: datetime) -> None:
        ended = {"steady": to_micros(steady), "limit": MAX_ITEMS}
        lost = [work_id for (work_id,) in connection.execute(self._sql.take_leases_ended, ended)]
        if lost:
            values = {"ids": self._dialect.array(lost), "now": to_micros(now), "error": LOST}
            connection.execute(self._sql.lose_attempts, values)
            connection.execute(self._sql.lose, values)
            self._latest.note(connection, now)

    def _skippable(self, connection: SqlConnection, handler: HandlerName) -> bool:
        (found,) = connection.execute(self._sql.any_skippable, {"handler": handler}).fetchone()
        return bool(found)

    def _skip(self, connection: SqlConnection, handler: HandlerName) -> None:
        """Skip from the ends of the lanes: a queued item always has a head before it, which it waits for."""
        for state in sorted(SKIPPABLE, key=lambda state: state is not WorkState.QUEUED):
            values = {"handler": handler, "limit": MAX_ITEMS}
            if connection.execute(self._sql.skip[state], values).rowcount == MAX_ITEMS:
                return


def _disabled(claimants: Sequence[HandlerClaim], off: Mapping[HandlerName, HandlerSwitch]) -> set[HandlerName]:
    return {one.handler for one in claimants if off.get(one.handler) is HandlerSwitch.DISABLED}


def _claimable(connection: SqlConnection, claimants: Sequence[HandlerClaim]) -> list[HandlerClaim]:
    """Return those whose handlers are neither paused nor disabled."""
    off = switches(connection)
    return [one for one in claimants if one.handler not in off]


def _moment(row: tuple[int | None]) -> datetime | None:
    return None if row[0] is None else from_micros(row[0])


def _in_order(ids: Sequence[int], rows: Iterable[tuple[Any, ...]]) -> list[WorkItem]:
    found = {item.id: item for item in map(_work_item, rows)}
    return [found[work_id] for work_id in ids if work_id in found]


def _work_item(row: tuple[Any, ...]) -> WorkItem:
    work_id, handler, attempts, uncounted, deaths, trigger, lane, *stored = row
    return WorkItem(
        id=work_id,
        handler=handler,
        attempt=max(attempts, 1),  # a follower is not claimed yet
        uncounted=uncounted,
        deaths=deaths,
        trigger=Trigger(trigger) if attempts <= 1 else Trigger.RETRY,
        source=delivery_or_reason(stored),
        in_lane=lane is not None,
    )
