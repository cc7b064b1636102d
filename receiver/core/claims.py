"""Work in the hands of a worker: what it routes, claims, holds and settles."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.deliveries import StoredDelivery
from receiver.core.types import DeliveryKey, HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt


@dataclass(frozen=True, slots=True)
class RoutingBatch:
    """Deliveries that no worker has routed, and the `seq` up to which all had been routed when they were read.

    `any_backfilled` tells whether there has ever been a delivery by a backfill in this store.
    """

    after: int
    deliveries: tuple[StoredDelivery, ...]
    any_backfilled: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's timed claim. `until` is when any other worker may take the work over."""

    worker: WorkerId
    until: datetime


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One delivery bound for one handler, claimed by a worker.

    `attempt` counts from 1 and includes this one; `uncounted` of the attempts before it do not count against the
    handler's schedule: they ended with their worker, or came before somebody asked for a retry. `deaths` is how
    many processes are known to have died while they ran it, workers and those of handlers alike.
    """

    id: int
    handler: HandlerName
    attempt: int
    uncounted: int
    deaths: int
    trigger: Trigger
    source: StoredDelivery


@dataclass(frozen=True, slots=True)
class HandlerClaim:
    """A handler whose work a worker claims, with the limits that hold for it over all workers.

    At most `concurrency` of its items run at one time; attempts begin `interval` apart. `most` is how many this
    claim may take.
    """

    handler: HandlerName
    concurrency: int | None = None
    interval: timedelta | None = None
    most: int = 2**31


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """How much to claim: items, and bytes of their bodies (one item always fits).

    The first `starting` of them begin at once, so that a worker that dies at once is known to have run them.
    `suspects` claims what may have killed its worker, and nothing else; without it only those are left out.
    """

    limit: int
    max_bytes: int
    starting: int = 0
    suspects: bool = False


@dataclass(frozen=True, slots=True)
class HeldItem:
    """A work item that waits for the pages of its job, `until` then at most."""

    id: int
    handler: HandlerName
    event_type: str
    job_id: str
    received_at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class JobPages:
    """What is known of a job's pages: when the last one arrived, and one that is not handled yet."""

    last_at: datetime | None
    open_key: DeliveryKey | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of an attempt: the state its work item goes to, and when it is due again if that is WAITING."""

    work_id: int
    worker: WorkerId
    attempt: Attempt
    state: WorkState
    due_at: datetime
    holds_lane: bool = False
    """If it is dead now, its lane stands still until somebody decides."""
    died: bool = False
    """The process of its own in which it ran died of it."""
