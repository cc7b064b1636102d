"""Claimed work whose lease has ended before it could start."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from receiver.core.claims import FollowerClaim, Settlement
from receiver.core.clock import Clock
from receiver.core.rules import Succeeded
from receiver.core.types import HandlerName
from receiver.routing import Handler
from receiver.worker.attempts import Claimed, Ended, LaneRun
from receiver.worker.leases import Leases

# FOLDED: The followers of claimed items: which of them may run, and what the store is told of them.
_QUICK = timedelta(milliseconds=100)
"""The followers of slower attempts would wait long, and be read again after each `stop_all`."""
_ENOUGH = 256
"""Followers that wait. More would only take memory."""
_ONE_BY_ONE = timedelta(minutes=1)
"""After a death. A process that dies of a follower may die before the store knows that it ran, and then the head
has the blame. Without followers the next death has the right one."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ITEM = 0
"""The head of a run whose results do not count any more. The store refuses what is behind it."""


class LaneRuns:
    """Lets items of one lane run one after the other without waiting for the record of each.

    A busy lane handles many times as many items so: their records share transactions, and no claim comes between.
    All followers are leased here. In the store the lease of the head keeps the lane for them.
    """

    def __init__(self, leases: Leases, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self._died_at = _LONG_AGO
        self._quick: set[HandlerName] = set()
        self._off: Collection[HandlerName] = ()
        self._runs: set[LaneRun] = set()
        """Those with followers that wait."""
        self._by_head: dict[int, LaneRun] = {}

    def note_death(self) -> None:
        """Let no item have followers for a while."""
        self._died_at = self._clock.steady()

    def allows(self, handler: Handler) -> bool:
        """Tell whether an item of this handler may have followers. Its last attempt was quick."""
        if handler.name not in self._quick or self._clock.steady() - self._died_at < _ONE_BY_ONE:
            return False
        one_by_one = handler.lane is None or handler.batch is not None or handler.rate is not None
        return not one_by_one and sum([len(run.waiting) for run in self._runs]) < _ENOUGH

    def begin(self, head: Claimed, followers: Iterable[Claimed]) -> Claimed:
        """Return a claimed item that the followers will follow."""
        run = self._by_head[head.item.id] = LaneRun(head.item.id, followers)
        self._runs.add(run)
        return head._replace(run=run)

    def ended(self, one: Claimed, ended: Ended) -> Claimed | None:
        """Return the item that runs next in the lane, None if there is none or this attempt did not succeed."""
        if one.handler.lane is None:
            return None
        name = one.handler.name
        if ended.attempt.took > _QUICK:
            self._quick.discard(name)
        else:
            self._quick.add(name)
        if (run := one.run) is None:
            return None
        if not isinstance(ended.result, Succeeded) or name in self._off or self._leases.ended(one.item.id):
            self.stop(run)
            return None
        following = run.begin_next()
        if not run.waiting:
            self._runs.discard(run)
        return following

    def stop(self, run: LaneRun) -> None:
        """Let nothing more follow in this run."""
        for one in run.waiting:
            self._leases.drop(one.item.id)
        run.waiting.clear()
        self._runs.discard(run)

    def stop_all(self, *, off: Collection[HandlerName] = ()) -> None:
        """Let nothing follow that has not begun, and from now on nothing of the handlers that are `off`.

        So what operators and other workers have decided about the followers since they were read counts soon.
        """
        self._off = off
        for run in list(self._runs):
            self.stop(run)

    def lost(self, work_ids: Iterable[int]) -> None:
        """Let no result of a run count whose head is one of these: they are claimed anew."""
        self.stop_all(off=self._off)
        for work_id in work_ids:
            if (run := self._by_head.pop(work_id, None)) is not None:
                run.head = _NO_ITEM

    def withdrawn(self, items: Iterable[Claimed]) -> None:
        """Stop the runs of items that were ready and will not run."""
        for one in items:
            if one.run is not None:
                one.run.begun.pop()  # only the last one can be ready
                self.stop(one.run)
                if not one.run.begun:
                    self._by_head.pop(one.run.head, None)

    def to_record(
        self, results: Sequence[tuple[Settlement, LaneRun | None]]
    ) -> tuple[list[Settlement], dict[FollowerClaim, LaneRun]]:
        """Return what the store is told of these results, in order, and the followers to claim with it.

        They are the oldest results of their runs.
        """
        settlements: list[Settlement] = []
        heads: dict[int, LaneRun] = {}
        for settlement, run in results:
            if run is None:
                settlements.append(settlement)
                continue
            heads[run.head] = run
            if run.begun and run.begun[0] == settlement.work_id:
                run.begun.popleft()
            is_head = settlement.work_id == run.head
            settlements.append(settlement if is_head else settlement._replace(behind=run.head))
        claims: dict[FollowerClaim, LaneRun] = {}
        for head, run in heads.items():
            self._by_head.pop(head, None)
            if head != _NO_ITEM and run.begun and (following := run.begun[0]) in self._leases:
                started = following == run.started and self._leases.marks
                claims[FollowerClaim(following, head, self._leases.new_lease(), started)] = run
        return settlements, claims

    def move_head(self, run: LaneRun, work_id: int) -> None:
        """Note that the store was asked to claim this follower: from now on it keeps the lane for the others."""
        run.head = work_id
        if run.begun:
            self._by_head[run.head] = run
