"""Followers: items of one lane that run one after the other without waiting for the record of each.

What they are for: one single lane at 12,000 items a second. Without them each item of a lane costs a claim and a
transaction of its own. In interleaved rounds of `tests.benchmarks.dispatch` they let a worker handle 5 times as
many items of one lane, for a fifth of the processor time of each.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from receiver.core.claims import FollowerClaim, Settlement
from receiver.core.clock import Clock
from receiver.core.rules import Succeeded
from receiver.core.types import HandlerName
from receiver.routing import Handler
from receiver.worker.attempts import Claimed, Ended, LaneRun
from receiver.worker.leases import Leases

_QUICK = timedelta(milliseconds=100)
"""After a slower attempt its handler has no followers: they would wait long, and be read again after `stop_all`."""
_ENOUGH = 256
"""At most so many followers wait. More would only take memory."""
_ONE_BY_ONE = timedelta(minutes=1)
"""For so long after a death there are no followers. A follower may have killed its worker before the store knew
that it ran, and then its head has the blame. Without followers the next death has the right cause."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ITEM = 0
"""The head of a run whose results no longer count: the store refuses whatever is behind it."""


class LaneRuns:
    """The followers of one worker. All are leased here; in the store the lease of their head keeps the lane."""

    def __init__(self, leases: Leases, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self._died_at = _LONG_AGO
        self._quick: set[HandlerName] = set()
        self._off: Collection[HandlerName] = ()
        self._runs: set[LaneRun] = set()
        """The runs whose followers wait."""
        self._by_head: dict[int, LaneRun] = {}

    def note_death(self) -> None:
        """Allow no followers for a while."""
        self._died_at = self._clock.steady()

    def allows(self, handler: Handler) -> bool:
        """Return whether an item of this handler may have followers. Its last attempt has to have been quick."""
        if handler.name not in self._quick or self._clock.steady() - self._died_at < _ONE_BY_ONE:
            return False
        one_by_one = handler.lane is None or handler.batch is not None or handler.rate is not None
        return not one_by_one and sum([len(run.waiting) for run in self._runs]) < _ENOUGH

    def begin(self, head: Claimed, followers: Iterable[Claimed]) -> Claimed:
        """Return a claimed item that these will follow."""
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
        """Drop followers that have not begun, and accept no more for handlers in `off`.

        What operators and other workers have decided about the followers since they were read takes effect by this.
        """
        self._off = off
        for run in list(self._runs):
            self.stop(run)

    def lost(self, work_ids: Iterable[int]) -> None:
        """Discount the results of the runs whose heads these are, now that they are claimed anew."""
        self.stop_all(off=self._off)
        for work_id in work_ids:
            if (run := self._by_head.pop(work_id, None)) is not None:
                run.head = _NO_ITEM

    def withdrawn(self, items: Iterable[Claimed]) -> None:
        """Stop the runs of items that were ready and will not start."""
        for one in items:
            if one.run is not None:
                one.run.begun.pop()  # only the last one can be ready
                self.stop(one.run)
                if not one.run.begun:
                    self._by_head.pop(one.run.head, None)

    def to_record(
        self, results: Sequence[tuple[Settlement, LaneRun | None]]
    ) -> tuple[list[Settlement], dict[FollowerClaim, LaneRun]]:
        """Return what to record of these results, in order, and the followers to claim with it.

        The results are the oldest of their runs.
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
        """Note that the store was asked to claim this follower, whose lease then keeps the lane."""
        run.head = work_id
        if run.begun:
            self._by_head[run.head] = run
