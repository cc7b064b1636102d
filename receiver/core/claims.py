"""What a worker routes, claims and settles."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.types import DeliveryKey, HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt


@dataclass(frozen=True, slots=True)
class RoutingBatch:
    """Deliveries that no worker has routed. When they were read, all up to the seq `after` had been routed.

    `any_backfilled` is whether a backfill has ever stored a delivery here. `server` is the one that they were
    read from, in a store where another server may take its place.
    """

    after: int
    deliveries: tuple[StoredDelivery, ...]
    any_backfilled: bool = False
    server: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's claim for a time. After `until`, on the steady clock, any other worker may claim the work."""

    worker: WorkerId
    until: datetime


class WorkItem(NamedTuple):
    """One delivery for one handler, claimed by a worker.

    `attempt` counts from 1 and includes this one. Of the attempts before it, `uncounted` do not count in the
    handler's schedule: they ended with their worker, or came before an operator asked for a retry. `deaths` counts
    the processes, of workers and of handlers, that certainly died while they ran it. `in_lane` is whether it has a
    lane.

    `followers` are the next ones in the queue of its lane, in order, without any attempt so far. The worker may
    run each once the one before has succeeded. They are not under a lease: that of this item keeps the lane.
    """

    id: int
    handler: HandlerName
    attempt: int
    uncounted: int
    deaths: int
    trigger: Trigger
    source: StoredDelivery
    in_lane: bool = False
    followers: tuple["WorkItem", ...] = ()


@dataclass(frozen=True, slots=True)
class HandlerClaim:
    """A handler whose work a worker claims, with its limits over all workers.

    At most `concurrency` of its items run at one time, and attempts begin `interval` apart. This claim takes at
    most `most` items. With `followers` they come with their followers, as far as the claim has room for them.
    """

    handler: HandlerName
    concurrency: int | None = None
    interval: timedelta | None = None
    most: int = 2**31
    followers: bool = False


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """How much to claim: items with their followers, and bytes of their bodies (one item always fits).

    The first `starting` items are noted as started: if the worker dies now, the store knows what it ran. With
    `suspects` the claim takes only items that may have killed their worker; without it, only the others.
    """

    limit: int
    max_bytes: int
    starting: int = 0
    suspects: bool = False


@dataclass(frozen=True, slots=True)
class HeldItem:
    """A work item that waits for the pages of its job, but no longer than `until`."""

    id: int
    handler: HandlerName
    event_type: str
    job_id: str
    received_at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class JobPages:
    """What is known of a job's pages: when the last one arrived, and the key of one that is not handled yet."""

    last_at: datetime | None
    open_key: DeliveryKey | None


@dataclass(frozen=True, slots=True)
class DueRun:
    """A scheduled run to make. `noted` is the next run that the store has noted, and `next_at` takes its place.

    `delivery` is what is stored for the run, with the origin SCHEDULE.
    """

    handler: HandlerName
    noted: datetime
    next_at: datetime
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class LaterWork:
    """A work item that the attempt of another one asked for: for the same delivery, due at a later moment."""

    seq: int
    handler: HandlerName
    due_at: datetime


class Settlement(NamedTuple):
    """The end of an attempt: the next state of its work item, and when the item is due if that is WAITING.

    `handler` is that of the work item. Without `in_lane` the item has certainly no lane.
    """

    work_id: int
    handler: HandlerName
    worker: WorkerId
    attempt: Attempt
    state: WorkState
    due_at: datetime
    in_lane: bool = True
    holds_lane: bool = False
    """If the item is DEAD now, its lane stands still until an operator decides."""
    died: bool = False
    """The process of the handler died during the attempt."""
    later: tuple[LaterWork, ...] = ()
    """What is made in the same transaction, if the item is DONE now and its worker still had the lease."""
    behind: int | None = None
    """The item under a lease whose follower this one was. The same call settles that item, as DONE, and no other
    attempt at it.
    """
    also: tuple[int, ...] = ()
    """More items of the handler whose attempts ended as this one: those of a batch that succeeded. None is in
    `later` or `behind` another."""

    @property
    def work_ids(self) -> tuple[int, ...]:
        """The items whose attempts have ended."""
        return (self.work_id, *self.also)

    def apart(self) -> Sequence["Settlement"]:
        """Return the same as a settlement of each item."""
        return [self._replace(work_id=work_id, also=()) for work_id in self.work_ids]


class FollowerClaim(NamedTuple):
    """A follower that its worker runs next, `behind` an item under a lease that the same call settles as DONE.

    With `started` it is noted as started.
    """

    work_id: int
    behind: int
    lease: Lease
    started: bool = True
