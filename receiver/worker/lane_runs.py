"""The followers of claimed items: which of them may run, and what the store is told of them."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from receiver.core.claims import FollowerClaim, Settlement
from receiver.core.clock import Clock
from receiver.core.rules import Succeeded
from receiver.core.types import HandlerName
from receiver.routing import Handler
from receiver.worker.attempts import Claimed, Ended, LaneRun
from receiver.worker.leases import Leases
from receiver.worker.slots import ReadyQueues

_ONE_BY_ONE = timedelta(minutes=1)
"""After a death. A process that dies of a follower may die before the store knows that it ran, and then the head
has the blame. Without followers the next death has the right one."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_QUICK = timedelta(milliseconds=100)
"""The followers of a slow item wait long, and this worker claims less for other lanes and handlers meanwhile."""


class LaneRuns:
    """Lets items of one lane run one after the other without waiting for the record of each.

    A busy lane handles many times as many items so: their records share transactions, and no claim comes between.
    """

    def __init__(self, ready: ReadyQueues, leases: Leases, clock: Clock) -> None:
        self._ready = ready
        self._leases = leases
        self._clock = clock
        self._died_at = _LONG_AGO
        self._off: Collection[HandlerName] = ()
        self._quick: set[HandlerName] = set()
        self._with_followers: set[LaneRun] = set()

    def note_death(self, now: datetime) -> None:
        """Let no item have followers for a while. `now` is on the steady clock."""
        self._died_at = now

    def switched_off(self, handlers: Collection[HandlerName]) -> None:
        """Let no more followers of these handlers run, until the next call."""
        self._off = handlers

    def allows(self, handler: Handler, now: datetime) -> bool:
        """Tell whether an item of this handler may have followers: its last attempt was quick."""
        if handler.name not in self._quick or now - self._died_at < _ONE_BY_ONE:
            return False
        return handler.lane is not None and handler.batch is None and handler.rate is None

    def stop_stalled(self, now: datetime) -> bool:
        """Stop the runs whose present item takes long by the steady clock; tell whether there were any."""
        stalled = [one for one in self._with_followers if now - one.began_at > _QUICK]
        for run in stalled:
            self._stop(run)
        return bool(stalled)

    def begin(self, head: Claimed, followers: Iterable[Claimed]) -> Claimed:
        """Return a claimed item that the followers will follow. All of them are leased."""
        run = LaneRun(head.item.id, self._clock.steady())
        run.waiting.extend([one._replace(run=run) for one in followers])
        self._ready.count_claimed(head.handler.name, len(run.waiting))
        self._with_followers.add(run)
        return head._replace(run=run)

    def ended(self, one: Claimed, ended: Ended) -> None:
        """Let the next one run if this attempt succeeded, and none otherwise."""
        if one.handler.lane is None:
            return
        attempt, name = ended.attempt, one.handler.name
        if attempt.ended_at - (attempt.started_at or attempt.ended_at) > _QUICK:
            self._quick.discard(name)
        else:
            self._quick.add(name)
        if (run := one.run) is None:
            return
        goes_on = isinstance(ended.result, Succeeded) and name in self._quick and name not in self._off
        if not goes_on or self._leases.ended(one.item.id):
            self._stop(run)
        elif (following := run.begin_next(self._clock.steady())) is not None:
            self._ready.add_follower(following)
            if not run.waiting:
                self._with_followers.discard(run)

    def withdrawn(self, items: Iterable[Claimed]) -> None:
        """Stop the runs of items that were ready and will not run."""
        for one in items:
            if one.run is not None:
                one.run.begun.pop()  # only the last one can be ready
                self._stop(one.run)

    def stop(self, call: Iterable[Claimed]) -> None:
        """Let nothing follow the items of a call."""
        for one in call:
            if one.run is not None:
                self._stop(one.run)

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
            is_head = run.begun.popleft() == run.head
            settlements.append(settlement if is_head else settlement._replace(behind=run.head))
        lease = self._leases.new_lease()
        claims: dict[FollowerClaim, LaneRun] = {}
        for head, run in heads.items():
            if run.begun and run.begun[0] in self._leases:
                claims[FollowerClaim(run.begun[0], head, lease)] = run
                run.head = run.begun[0]
        return settlements, claims

    async def recorded(self, claims: Iterable[tuple[LaneRun, bool]]) -> None:
        """Take note of which followers were claimed. What was withdrawn meanwhile is given back."""
        unwanted: list[int] = []
        for run, is_claimed in claims:
            if not is_claimed:
                self._stop(run)
                unwanted += [one.item.id for one in self._ready.withdraw(partial(_belongs, run))]
            elif run.head not in self._leases:
                unwanted.append(run.head)
        await self._leases.release(unwanted)

    def _stop(self, run: LaneRun) -> None:
        for one in run.waiting:
            self._leases.drop(one.item.id)
            self._ready.count_claimed(one.handler.name, -1)
        run.waiting.clear()
        self._with_followers.discard(run)


def _belongs(run: LaneRun, one: Claimed) -> bool:
    return one.run is run
