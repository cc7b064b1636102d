"""The end of attempts, inside the queue's transactions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain, repeat

from receiver.core.activity import MINUTE_MICROS
from receiver.core.claims import FollowerClaim, Lease, Settlement
from receiver.core.clock import to_micros
from receiver.core.types import AttemptOutcome, HandlerName, WorkerId, WorkState
from receiver.stores.sql.connection import SqlConnection
from receiver.stores.sql.dialect import AttemptRow, Dialect, Insert, Locks, attempt_row
from receiver.stores.sql.statements.writing import Statements
from receiver.stores.sql.work_items import LatestMoment

_WRITE_EVERY = 1_000_000
"""Microseconds between two writes. To count each batch in its own transaction made settling slower by a fifth."""
_MAX_WAITING = 20_000
_SUCCEEDED = AttemptOutcome.SUCCEEDED.value


class SettledBatch:
    """Attempts that were recorded together at `now`, by their handlers. The first so many succeeded.

    One is made for each batch and looks at each attempt, so it does as little as possible.
    """

    __slots__ = ("_buckets", "_handlers", "_others", "_successes", "now")

    def __init__(
        self, handlers: Sequence[HandlerName], attempts: Sequence[AttemptRow], now: int, *, successes: int
    ) -> None:
        self.now = now
        self._handlers = handlers
        self._buckets = [(row[4] - (row[3] or row[4])).bit_length() for row in attempts]
        self._successes = successes
        self._others = [row[5] for row in attempts[successes:]]

    def __len__(self) -> int:
        return len(self._handlers)

    def rows(self) -> Iterable[tuple[int, HandlerName, str, int]]:
        """Return where each attempt counts."""
        outcomes = chain(repeat(_SUCCEEDED, self._successes), self._others)
        return zip(repeat(self.now // MINUTE_MICROS), self._handlers, outcomes, self._buckets, strict=False)


class PendingActivity:
    """What one worker has not written yet, of a second or since its last sign. If it is killed, that is lost."""

    def __init__(self, statement: str, dialect: Dialect) -> None:
        self._statement = statement
        self._dialect = dialect
        self._batches: list[SettledBatch] = []
        self._waiting = 0
        self._written_at: int | None = None

    def write_due(self, connection: SqlConnection, new: SettledBatch, now: int) -> bool:
        """Write what waits and what is new, inside a transaction, if it is time; return whether it was."""
        was_just_written = self._written_at is not None and 0 <= now - self._written_at < _WRITE_EVERY
        if was_just_written and self._waiting < _MAX_WAITING:
            return False
        self.write(connection, new)
        self._written_at = now
        return True

    def write(self, connection: SqlConnection, *new: SettledBatch) -> None:
        """Write what waits and what is new, inside a transaction."""
        counts = Counter(chain.from_iterable(one.rows() for one in (*self._batches, *new)))
        if counts:
            rows = [(*row, count) for row, count in sorted(counts.items())]
            connection.execute(self._statement, {"rows": self._dialect.rows(rows)})

    def committed(self, new: SettledBatch | None = None, *, written: bool) -> None:
        """Note that a transaction was committed: everything is written, or what is new waits with the rest."""
        if written:
            self._batches, self._waiting = [], 0
        elif new is not None:
            self._batches.append(new)
            self._waiting += len(new)


class LeaseLost(Exception):
    """The worker has lost the lease of an item whose attempt it ends."""


class SettlingAlgorithm:
    """The algorithm of settling over the statements of one kind of database."""

    def __init__(
        self,
        statements: Statements,
        *,
        insert: Insert,
        latest: LatestMoment,
        locks: Locks,
        dialect: Dialect,
    ) -> None:
        self._sql = statements
        self._locks = locks
        self._insert = insert
        self._latest = latest
        self._dialect = dialect

    def settle(
        self, connection: SqlConnection, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim]
    ) -> SettledBatch:
        """Record these attempts, at least one, claim the followers, and return what is to be counted.

        Raises LeaseLost if one of them is no longer its worker's, so that the transaction is undone.
        """
        in_lanes = [work_id for one in settlements if one.in_lane for work_id in one.work_ids]
        self._lock_lanes(connection, in_lanes)
        done = [one for one in settlements if one.state is WorkState.DONE]
        others = [one for one in settlements if one.state is not WorkState.DONE]
        behind = {one.behind for one in settlements if one.behind is not None} | {one.behind for one in followers}
        if not behind.issubset([one.work_id for one in done]):
            raise LeaseLost
        self._finish(connection, [one for one in done if one.behind is None])
        if behind:
            self._finish_followers(connection, [one.work_id for one in done if one.behind is not None])
            self._follow(connection, [*followers, *_claims_of(others)])
        self._move(connection, others)
        now = max(one.attempt.ended_at for one in settlements)
        self._latest.note(connection, now)
        if in_lanes:
            self.promote(connection, in_lanes, now)
        return self._record(connection, done, others, to_micros(now))

    def _record(
        self, connection: SqlConnection, done: Sequence[Settlement], others: Sequence[Settlement], now: int
    ) -> SettledBatch:
        """Record the attempts. To insert a row for each item of a batch would take twice as long."""
        settled = [*done, *others]
        rows = [attempt_row(one.work_id, one.attempt) for one in settled]
        handlers = [one.handler for one in settled]
        self._insert(connection, self._sql.insert_attempts, rows)
        if also := [(one, row) for one, row in zip(done, rows, strict=False) if one.also]:
            items = [(one.work_id, one.attempt.number, one.also) for one, _ in also]
            connection.execute(self._sql.also_ended, {"items": self._dialect.rows(items)})
            rows = [*chain.from_iterable([[row] * len(one.also) for one, row in also]), *rows]
            handlers = [*chain.from_iterable([[one.handler] * len(one.also) for one, _ in also]), *handlers]
        return SettledBatch(handlers, rows, now, successes=len(rows) - len(others))

    def still_leased(
        self, connection: SqlConnection, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim]
    ) -> tuple[list[bool], list[bool]]:
        """Return for each whether its worker still has its lease, or may run it next, until the transaction ends.

        Each is about one item. Of an attempt that ended twice only the first end counts.
        """
        self._lock_lanes(connection, [one.work_id for one in settlements if one.in_lane])
        ids = self._dialect.array([one.work_id for one in settlements])
        holders = {work_id: holder for work_id, *holder in connection.execute(self._sql.holders, {"ids": ids})}
        behind = [one.work_id for one in settlements if one.behind is not None]
        ids = self._dialect.array([*behind, *[one.work_id for one in followers]])
        left = {work_id for (work_id,) in connection.execute(self._sql.followers_left, {"ids": ids})}
        ended: set[int] = set()

        def follows(one: Settlement | FollowerClaim) -> bool:
            return one.behind in ended and one.work_id in left

        leased = []
        for one in settlements:
            holds_lease = holders.get(one.work_id) == [one.worker, one.attempt.number]
            leased.append(holds_lease if one.behind is None else follows(one))
            if leased[-1]:
                holders.pop(one.work_id, None)
                left.discard(one.work_id)
                ended |= {one.work_id} if one.state is WorkState.DONE else set()
        claimed = []
        for follower in followers:
            claimed.append(follows(follower))
            left.discard(follower.work_id)
        return leased, claimed

    def promote(self, connection: SqlConnection, work_ids: Sequence[int], now: datetime) -> None:
        """Make due what comes next in the lanes of these items, where no other item heads the lane.

        The transaction holds the locks of those lanes since before it changed the items.
        """
        values = {"ids": self._dialect.array(work_ids), "now": to_micros(now)}
        connection.execute(self._sql.promote, values)

    def _lock_lanes(self, connection: SqlConnection, in_lanes: Sequence[int]) -> None:
        if in_lanes:
            self._locks.lanes_of(connection, in_lanes)

    def _finish(self, connection: SqlConnection, done: Sequence[Settlement]) -> None:
        """Make done what succeeded. Most attempts are the first, so one statement checks and moves them all."""
        ids: dict[tuple[WorkerId, int], list[int]] = {}
        for one in done:
            ids.setdefault((one.worker, one.attempt.number), []).append(one.work_id)
            if one.also:
                ids[one.worker, one.attempt.number] += one.also
        for (worker, number), work_ids in ids.items():
            values = {"ids": self._dialect.array(work_ids), "worker": worker, "number": number}
            _require(connection.execute(self._sql.finish, values).rowcount, len(work_ids))

    def _finish_followers(self, connection: SqlConnection, work_ids: Sequence[int]) -> None:
        if work_ids:
            values = {"ids": self._dialect.array(work_ids)}
            _require(connection.execute(self._sql.finish_followers, values).rowcount, len(work_ids))

    def _follow(self, connection: SqlConnection, claims: Sequence[FollowerClaim]) -> None:
        """Claim followers. One that has failed already is moved on in the same transaction."""
        ids: dict[tuple[Lease, bool], list[int]] = {}
        for one in claims:
            ids.setdefault((one.lease, one.started), []).append(one.work_id)
        for (lease, started), work_ids in ids.items():
            values = {
                "ids": self._dialect.array(work_ids),
                "started": int(started),
                "worker": lease.worker,
                "until": to_micros(lease.until),
            }
            _require(connection.execute(self._sql.follow, values).rowcount, len(work_ids))

    def _move(self, connection: SqlConnection, others: Sequence[Settlement]) -> None:
        """Move what did not succeed."""
        if others:
            values = {"items": self._dialect.rows([_row(one) for one in others])}
            _require(connection.execute(self._sql.settle, values).rowcount, len(others))


def _claims_of(others: Sequence[Settlement]) -> list[FollowerClaim]:
    return [
        FollowerClaim(one.work_id, one.behind, Lease(one.worker, one.attempt.ended_at))
        for one in others
        if one.behind is not None
    ]


def _require(moved: int, expected: int) -> None:
    if moved != expected:
        raise LeaseLost


def _row(one: Settlement) -> tuple[object, ...]:
    due_at = to_micros(one.due_at) if one.state is WorkState.WAITING else None
    state = (one.state, due_at, one.attempt.error, int(one.holds_lane), int(one.died))
    return one.work_id, *state, one.worker, one.attempt.number
