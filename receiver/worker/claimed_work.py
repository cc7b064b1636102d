"""What a worker has claimed: items that may run at once, and their followers."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from receiver.core.claims import ClaimLimits, WorkItem
from receiver.core.rules import MAX_FOLLOWERS, refusal
from receiver.core.types import HandlerName
from receiver.core.work import NewWork
from receiver.routing import Router
from receiver.worker.attempts import Claimed
from receiver.worker.planning import HandlerMatch


class ClaimedWork(NamedTuple):
    """Claimed items, their followers by the ids of those, and the ids of those that the store knows to start."""

    items: Sequence[Claimed]
    followers: Mapping[int, Sequence[Claimed]]
    marked: frozenset[int]

    def together(self) -> Sequence[Claimed]:
        """Return the items, and then all followers."""
        return [*self.items, *chain.from_iterable(self.followers.values())]


def from_claim(items: Sequence[WorkItem], router: Router, limits: ClaimLimits) -> ClaimedWork:
    """Return what a claim with these limits brought."""
    claimed: list[Claimed] = []
    followers: dict[int, list[Claimed]] = {}
    for item in items:
        handler = router[item.handler]
        claimed.append(Claimed(item, handler, refusal=refusal(item, handler.schedule, suspect=limits.suspects)))
        if item.followers:
            followers[item.id] = [Claimed(one, handler) for one in item.followers]
    return ClaimedWork(claimed, followers, frozenset([item.id for item in items[: limits.starting]]))


def from_route(
    ids: Sequence[int | None],
    work: Sequence[NewWork],
    matches: Sequence[HandlerMatch],
    *,
    with_followers: Collection[HandlerName],
) -> ClaimedWork:
    """Return what was claimed as it was routed, for these handlers with followers."""
    claimed: list[Claimed] = []
    followers: dict[int, list[Claimed]] = {}
    started: list[int] = []
    heads: dict[tuple[HandlerName, str], int] = {}
    for work_id, new, match in zip(ids, work, matches, strict=True):
        if work_id is None:
            continue
        item = WorkItem(work_id, new.handler, 1, 0, 0, new.trigger, match.stored, new.lane is not None)
        one = Claimed(item, match.handler, match.kept, match.refusal)
        head = work_id if new.lane is None else heads.setdefault((new.handler, new.lane), work_id)
        if head == work_id:
            claimed.append(one)
            if new.starts:
                started.append(work_id)
        elif new.handler in with_followers and len(followers.setdefault(head, [])) < MAX_FOLLOWERS:
            followers[head].append(one)
    return ClaimedWork(claimed, followers, frozenset(started))
