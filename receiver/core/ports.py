"""The faces of a store: the web process appends, the worker claims and settles, people decide and read."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from receiver.core.bulk import (
    Cursor,
    DeliveryPlan,
    Imported,
    PruneRule,
    QuarantinedSummary,
    QuarantineFilter,
    RecordedRun,
    Step,
    WorkPlan,
)
from receiver.core.jobs import JobDetail, JobFilter, JobSummary
from receiver.core.records import (
    Backlog,
    ClaimLimits,
    Delivery,
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    FeedPage,
    HandlerClaim,
    HandlerReport,
    HeldItem,
    JobPages,
    Lease,
    NewWork,
    Quarantined,
    Receipt,
    RoutingBatch,
    Settlement,
    StoredDelivery,
    WorkDetail,
    WorkFilter,
    WorkItem,
    WorkSummary,
)
from receiver.core.search import SearchReach
from receiver.core.types import AppendOutcome, DeliveryKey, HandlerName, HandlerSwitch, WorkerId


class DeliveryLog(Protocol):
    """What the web process needs.

    The futures resolve only when the transaction is durable, and fail with StoreError when nothing of the
    item was kept. Giving up on one of them does not stop its write.
    """

    def append(self, delivery: Delivery) -> asyncio.Future[Receipt]:
        """Store a delivery unless its key is stored.

        A second arrival with the same body is counted on the first. With another body it is also put in
        quarantine as `conflict`. Both happen in the transaction that found the first.
        """

    def quarantine(self, request: Quarantined) -> asyncio.Future[None]:
        """Keep a refused request."""

    def probe(self, now: datetime) -> asyncio.Future[None]:
        """Write a mark, to find out whether deliveries could be written now."""


class WorkQueue(Protocol):
    """What a worker needs."""

    async def routing_batch(self, *, limit: int, max_bytes: int) -> RoutingBatch:
        """Return the oldest deliveries that no worker has routed, in the order of arrival.

        At most `limit` of them, and no more than fit in `max_bytes` of bodies, but always one if there is one.
        """

    async def route(
        self, batch: RoutingBatch, work: Sequence[NewWork], *, lease: Lease, now: datetime
    ) -> Sequence[int | None] | None:
        """Make work items and mark the deliveries of the batch as routed.

        Returns, in the order of `work`, the ids of those that are now claimed under the lease, and None for the
        others: those that did not ask for it, are held, are queued behind another in their lane, or whose
        handler is paused or disabled. Returns None, changing nothing, when another worker has routed since the
        batch was read.
        """

    async def claim(
        self, claimants: Sequence[HandlerClaim], wanted: ClaimLimits, *, lease: Lease, now: datetime
    ) -> Sequence[WorkItem]:
        """Claim work items of these handlers that are due, within each handler's limits.

        Handlers are served in the order given, and of each the longest due first; none of a handler that is
        paused or disabled. Each claim counts as an attempt. Before that, what dead workers held, of whatever
        handler, has its lost attempt recorded and becomes due; and what waits for one of these handlers that is
        disabled is skipped.
        """

    async def suspects_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> bool:
        """Tell whether an item is due that may have killed its worker.

        One is suspected when its worker died after it had begun, or when two of its workers died.
        """

    async def mark_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Note that items which this worker still holds have begun."""

    async def clear_started(self, work_ids: Sequence[int], worker: WorkerId) -> None:
        """Take that note back: from now on, whoever ends this worker, it is not the doing of these items."""

    async def renew(self, work_ids: Sequence[int], lease: Lease) -> None:
        """Move the end of the lease on those of the items that its worker still holds."""

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Record attempts and move their work items, each only if its worker still holds that attempt.

        Returns for each whether it did. False means that the lease ended and another attempt owns the item.
        """

    async def release_leases(self, work_ids: Sequence[int], worker: WorkerId, *, now: datetime) -> None:
        """Make items that this worker still holds due at once, and uncount the attempt."""

    async def expire_leases_of(self, worker: WorkerId, *, now: datetime) -> int:
        """End all leases of a worker that is known to be dead; return how many there were."""

    async def next_due(self, claimants: Sequence[HandlerClaim], *, now: datetime) -> datetime | None:
        """Return when there may be something to claim or to look at: what is due, a rate, a lease, a held item."""

    async def held(self, handlers: Sequence[HandlerName], *, now: datetime, limit: int) -> Sequence[HeldItem]:
        """Return held items that are due for a look, the longest due first."""

    async def backfilled(self, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Return those of the keys under which a delivery of the origin BACKFILL is stored."""

    async def pages(self, job_id: str, *, page_type: str, handlers: Sequence[HandlerName]) -> JobPages:
        """Return how far these handlers have come with the pages of a job; unrouted ones are not handled."""

    async def recheck(self, work_id: int, *, at: datetime, note: str) -> None:
        """Keep a held item until the next look. `note` says what it waits for."""

    async def release(self, work_id: int, *, now: datetime, note: str) -> None:
        """Make a held item due."""

    async def once(self, handler: HandlerName, key: str, *, now: datetime, until: datetime | None = None) -> bool:
        """Return True the first time this handler asks for this key, and False ever after.

        With `until` that lapses: from then on the next who asks is the first again, and says anew for how long.
        """

    async def available_once_keys(
        self, handler: HandlerName, keys: Collection[str], *, now: datetime
    ) -> frozenset[str]:
        """Return those of the keys for which `once` would say True now."""

    async def set_once_expiry(self, handler: HandlerName, key: str, *, until: datetime | None) -> None:
        """Change when it lapses that this handler has asked for this key once; None for never."""

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""

    async def changed(self) -> None:
        """Return soon after another process, or this one, has appended a delivery."""


class Controls(Protocol):
    """What an operator decides. Each call is one transaction unless it says otherwise."""

    async def retry(self, work_ids: Sequence[int], *, now: datetime) -> int:
        """Make dead, skipped, waiting and held items due at once, with a fresh schedule; return how many.

        One whose lane is busy is queued there, in the order of arrival.
        """

    async def bury(self, work_ids: Sequence[int], reason: str, *, now: datetime) -> int:
        """Make items dead that wait, are queued or held, and release the lanes of dead ones; return how many."""

    async def switch(self, handler: HandlerName, to: HandlerSwitch) -> None:
        """Set a handler's switch. Disabling it skips what waits for it when a worker next looks."""

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store deliveries from outside whose keys are not stored; return what became of each, in their order.

        What is stored already is not changed. With the same body it is a DUPLICATE and not counted, so that
        bringing in twice is like once; with another body a CONFLICT, which is not kept. Of one whose body was
        pruned only the sizes are compared: if they agree it is a DUPLICATE, and gets its body and headers back.

        They are written some at a time, so that acks never wait long, and all durable when the call returns. When
        it fails, the first ones may be stored; the same call again goes on with the rest.
        """

    async def enqueue(self, work: Sequence[NewWork], *, now: datetime) -> int:
        """Make new work items beside those that there are, and return how many.

        They obey lanes, holding back and switches as routed ones do, and wait for any worker; their trigger is
        REPLAY unless another than DELIVERY is given. Those whose deliveries have no body any more are left out.
        """

    async def record(self, results: Sequence[RecordedRun], *, now: datetime) -> None:
        """Keep work items that have run elsewhere; those whose deliveries are gone are left out."""

    async def release_request(self, request_id: int, delivery: Delivery) -> Receipt:
        """Make a request in quarantine the delivery that it is read as now, deduplicated as when it is appended.

        It leaves quarantine, unless there is a delivery of its key with another body: then it is a CONFLICT, and
        nothing changes. Raises UnknownRequest.
        """


class Maintenance(Protocol):
    """What keeps a store small. Each step is one short transaction, so that acks never wait long for it."""

    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        """Return what pruning by this rule would remove now."""

    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        """Remove at most `limit` deliveries by this rule, or their bodies, behind the seq `after`.

        With a delivery go its work items and their attempts; of one that loses only its body everything else stays,
        so that the sender's retry of it is still a duplicate. A step can remove nothing and yet not be the last.
        """

    async def forget(self, before: datetime, *, limit: int) -> int:
        """Forget what handlers asked for once before a moment; return how much, less than `limit` at the end."""

    async def compress(self, *, limit: int) -> Step:
        """Write bodies smaller of deliveries that have been routed, at most `limit`; `size` is what that saved."""

    async def shrink(self, pages: int) -> int:
        """Give at most so many unused pages back to the file system; return how many."""


class Reports(Protocol):
    """What listings, health and tools need."""

    def deliveries(self, wanted: DeliveryFilter) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first, in flat memory."""

    async def since(self, wanted: DeliveryFilter, *, after: int, limit: int) -> FeedPage:
        """Return the wanted ones of the next deliveries behind the seq `after`; at most `limit` are looked at."""

    async def by_seqs(self, wanted: DeliveryFilter, seqs: Sequence[int]) -> Sequence[DeliverySummary]:
        """Return the wanted ones of the deliveries with these seqs, the oldest first; its `limit` is not asked."""

    async def open_seqs(self, *, limit: int) -> Sequence[int]:
        """Return the seqs of deliveries that are NEW or WORKING, the newest first, at most so many."""

    async def changed(self) -> None:
        """Return soon after another process, or this one, has changed something since the last call.

        It may be early. Raises StoreError when the database is not the one that was opened any more.
        """

    async def plan(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> DeliveryPlan:
        """Return what an action on the wanted deliveries would touch; with `after`, like `stored`, on the rest."""

    def iter_deliveries(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        """Yield the wanted deliveries with their bodies, the oldest first, in flat memory.

        With `by_job` they come job by job, in the order of job ids, and those without a job last. What was pruned
        is passed over, and so is what arrives after the first was asked for. `after` goes on behind a place, for
        the same filter and order; with a `limit` the newest are counted anew, so `until` should stand beside it.
        """

    async def failed_handlers(self, seq: int) -> frozenset[HandlerName]:
        """Return the handlers whose work item for this delivery is dead, or whose last attempt failed."""

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the one key that begins so, or raise UnknownDelivery naming the candidates."""

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return all that is known of a delivery, or raise UnknownDelivery."""

    async def count_unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index of words reaches, None when there is none."""

    def work_items(self, wanted: WorkFilter) -> AsyncIterator[WorkSummary]:
        """Yield the wanted work items, the newest first, in flat memory."""

    async def work_item(self, work_id: int) -> WorkDetail:
        """Return a work item with its attempts, or raise UnknownWork."""

    async def work_plan(self, wanted: WorkFilter) -> WorkPlan:
        """Return what an action on the wanted work items would touch."""

    def work_ids(
        self, wanted: WorkFilter, plan: WorkPlan, *, newest_first: bool = False
    ) -> AsyncIterator[Sequence[int]]:
        """Yield the ids of the items that were planned for and are wanted still, at most 500 at a time."""

    def quarantined_requests(self, wanted: QuarantineFilter) -> AsyncIterator[QuarantinedSummary]:
        """Yield the requests in quarantine, the newest first, in flat memory."""

    async def quarantined_request(self, request_id: int) -> Quarantined:
        """Return a request in quarantine, or raise UnknownRequest."""

    def jobs(self, wanted: JobFilter) -> AsyncIterator[JobSummary]:
        """Yield the wanted jobs, the one whose last delivery came last first, in flat memory."""

    async def resolve_job(self, prefix: str) -> str:
        """Return the one job id that begins so, or raise UnknownJob naming the candidates."""

    async def job(self, job_id: str) -> JobDetail:
        """Return all that is known of a job, or raise UnknownJob."""

    async def handlers(self) -> Sequence[HandlerReport]:
        """Return every handler that has work items or a switch, by name."""

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler wait, are queued or held; a handler without any is absent."""

    async def backlog(self, now: datetime) -> Backlog:
        """Return what is still to be done."""


class SearchIndex(Protocol):
    """What fills the index of words.

    What is pruned leaves it in the same transaction, and a body that is brought in again comes back into it so.
    """

    async def index(self, *, limit: int, max_bytes: int) -> int:
        """Take the next deliveries in, in one short transaction, and return how many there were.

        In the order of arrival, at most `limit`, and not many more bytes of bodies than `max_bytes`. What another
        worker takes in meanwhile is taken in once.
        """


class Store(Protocol):
    """Where its faces are opened. Nothing is touched before one of them is entered.

    Entering raises StoreError or StoreRefused when the database cannot be used. `log` and `queue` create and
    migrate it, `reports` migrates it but does not create it. Leaving finishes what was submitted.
    """

    def exists(self) -> bool:
        """Tell whether there is a database. Raises StoreRefused if there is none and none could be created."""

    def log(self) -> AbstractAsyncContextManager[DeliveryLog]:
        """Open for appending."""

    def queue(self) -> AbstractAsyncContextManager[WorkQueue]:
        """Open for working."""

    def search(self) -> AbstractAsyncContextManager[SearchIndex]:
        """Open for indexing; makes the index. Raises ConfigurationError where the database cannot have one."""

    def controls(self) -> AbstractAsyncContextManager[Controls]:
        """Open for deciding. There has to be a database."""

    def reports(self) -> AbstractAsyncContextManager[Reports]:
        """Open for reading."""

    def maintenance(self) -> AbstractAsyncContextManager[Maintenance]:
        """Open for pruning and shrinking. There has to be a database."""
