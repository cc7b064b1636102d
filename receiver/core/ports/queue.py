"""What a worker needs from a store, one face for each concern."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from receiver.core.activity import WorkerSign
from receiver.core.claims import (
    ClaimLimits,
    DueRun,
    FollowerClaim,
    HandlerClaim,
    HeldItem,
    JobPages,
    Lease,
    RoutingBatch,
    Settlement,
    WorkItem,
)
from receiver.core.schedules import PlannedRun, RunOutcome
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch, WorkerId
from receiver.core.work import NewWork


class RoutingQueue(Protocol):
    """Make work items from stored deliveries."""

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed, in the order of arrival.

        It has at most `limit` deliveries and `max_bytes` of bodies, but always one delivery if there is one. Where
        workers of other machines route too, it may be empty while one of them is about to route the next ones.
        """

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the deliveries of the batch as routed.

        Returns, in the order of `work`, the ids of the items that are now claimed under the lease and of their
        followers, and None for the others. In each lane the first with an id is claimed, and the rest follow it.
        Returns None and changes nothing if another worker has routed since the batch was read, or if another server
        has replaced the one from which it was read: the new server may lack some of its deliveries.
        """

    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Return those of the keys whose stored delivery has the origin BACKFILL."""

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""


class ClaimQueue(Protocol):
    """Claim work items and settle them."""

    most_claimed: int
    """How many items a worker may have claimed at one time, or a few per slot if that is more, as long as it
    settles that many in a moment. Large transactions cost less per item, but with one writer they keep deliveries
    waiting."""

    async def claim(
        self,
        claimants: Sequence[HandlerClaim],
        wanted: ClaimLimits,
        *,
        lease: Lease,
        now: datetime,
        steady: datetime | None = None,
    ) -> Sequence[WorkItem]:
        """Claim work items of these handlers that are due, within each handler's limits.

        Handlers are served in the order given, and the items that have been due longest come first. A handler that
        is paused or disabled gets no items. Each claim counts as an attempt. `steady` is the present moment on the
        clock of leases, `now` by default.

        Before that, items of any handler whose lease has ended become due, and their attempts are recorded as lost.
        Items of these handlers are skipped if their handler is disabled. If the clock was set back since attempts
        ended or items were made, everything that waits is moved back with it (`rules.set_back_by`): an item then
        waits for its retry delay from now, not until the clock has caught up.
        """

    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        """Return whether a suspect is due: an item that may have killed or blocked its worker.

        An item is a suspect once a started attempt of it was lost, or two attempts in all.
        """

    async def settle(
        self, settlements: Sequence[Settlement], followers: Sequence[FollowerClaim] = ()
    ) -> Sequence[bool]:
        """Record attempts and change the states of their items, if their workers still have the leases.

        The same transaction claims the `followers`, and makes the items that attempts asked for with `ctx.later`,
        with the trigger LATER. Returns for each item of the settlements whether its attempt was recorded, and then
        for each follower whether it was claimed. False means that the lease had ended, or that an operator has
        decided about the follower since.
        """

    async def next_due(
        self, claimants: Sequence[HandlerClaim], *, now: datetime, steady: datetime | None = None
    ) -> datetime | None:
        """Return when there may be something to claim, to skip or to check; None for never.

        A claimant whose `most` is 0, or whose `concurrency` is used up, has nothing to claim. `changed` reports
        when that may be over, unless the cause is a worker's death. `steady` is the present moment on the clock of
        leases, `now` by default.
        """


class LeaseQueue(Protocol):
    """Work items under a lease: note that they have started, and renew, return or end the lease."""

    async def enlist(self, worker: WorkerId) -> None:
        """Show other workers that this one is alive, until the queue is closed or its process ends.

        A worker enlists before its first lease. Raises StoreError if the store cannot show it.
        """

    async def expire_dead(self, worker: WorkerId, *, steady: datetime) -> Sequence[WorkerId]:
        """End the leases of all workers that are certainly dead, as `expire_leases_of` does; return their names.

        `worker` is the caller, which is alive. A worker counts as alive unless the store is certain of its death.
        """

    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Note that these items, leased by this worker, have started."""

    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Remove that note. If the worker dies now, these items are not suspected."""

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease for those of the items that its worker still has leased."""

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items that this worker has leased due at once, as if the attempt had not begun."""

    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a worker that is certainly dead; return how many there were.

        `now` is on the clock of leases. Items that had started count the death when the next claim takes them back.
        """


class WorkerSigns(Protocol):
    """Show people which workers run. Nothing depends on it: leases decide which worker may run an item."""

    async def sign_on(self, sign: WorkerSign, *, now: datetime) -> None:
        """Show that a worker is alive. A worker repeats this.

        It also writes what its settled attempts add to `HealthReader.activity`, unless that is written already.
        """

    async def sign_off(self, worker: WorkerId) -> None:
        """Show that a worker has ended, and write the rest of its activity."""


class HoldQueue(Protocol):
    """Work items that wait for the pages of their job."""

    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        """Return held items that are due for a check, those that have been due longest first."""

    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        """Return how far these handlers have come with the pages of a job. An unrouted page is not handled.

        Items made by `ctx.later` do not count: the end of a job must not wait for hours.
        """

    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        """Keep an item held until its next check, at the end of its hold at the latest. `note` says why."""

    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        """End the hold of an item. `note` says why."""


class OnceKeys(Protocol):
    """Keys that a handler can use only once."""

    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        """Return True the first time that this handler uses this key, and False from then on.

        With `until` the key expires at that moment, and the next use counts as the first again.
        """

    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        """Return those of the keys for which `once` would return True now."""

    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        """Change when a used key expires; None for never."""


class ScheduleQueue(Protocol):
    """Scheduled runs of handlers: one run at each moment, whatever the number of workers."""

    async def follow_schedules(self, planned: Sequence[PlannedRun], *, now: datetime) -> Sequence[datetime]:
        """Note when the handlers run next, and return the moments that count, in the order of `planned`.

        A run of the same schedule that is noted already, and is not later than the planned one, stays: it may have
        been missed. A schedule that is new or has changed begins with its planned run. Schedules that no worker has
        followed for `FORGOTTEN_AFTER` are removed.
        """

    async def make_run(self, run: DueRun, *, now: datetime) -> RunOutcome:
        """Store a scheduled run with its work item, and note when the next one is due, in one transaction.

        Only the last `KEPT_RUNS` ended runs of the handler are kept.
        """


class WorkSignal(Protocol):
    """Wake a worker when there is something to do."""

    async def changed(self) -> None:
        """Return soon after another process, or this one, has appended a delivery."""


class WorkQueue(
    RoutingQueue, ClaimQueue, LeaseQueue, WorkerSigns, HoldQueue, OnceKeys, ScheduleQueue, WorkSignal, Protocol
):
    """All that a worker needs."""
