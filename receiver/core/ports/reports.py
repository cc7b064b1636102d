"""What listings, health checks and tools read from a store, one face for each subject."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from receiver.core.activity import ActivityCount, WorkerReport
from receiver.core.bulk import Cursor, DeliveryPlan, WorkPlan
from receiver.core.deliveries import (
    DeliveryDetail,
    DeliveryFilter,
    DeliverySummary,
    FeedPage,
    ListingPage,
    LookEnd,
    Quarantined,
    QuarantinedSummary,
    QuarantineFilter,
    StoredDelivery,
)
from receiver.core.jobs import JobDetail, JobFilter, JobSummary
from receiver.core.recorded_actions import RecordedAction
from receiver.core.subjects import SearchReach, Subject
from receiver.core.types import DeliveryKey, HandlerName, HandlerSwitch
from receiver.core.work import Backlog, HandlerReport, StoreFacts, WorkDetail, WorkFilter, WorkSummary


class DeliveryReader(Protocol):
    """Read stored deliveries."""

    def deliveries(self, wanted: DeliveryFilter, *, before: int | None = None) -> AsyncIterator[DeliverySummary]:
        """Yield the wanted deliveries, the newest first, in flat memory.

        `before` is a seq: it yields only earlier deliveries, such as those of the next page.
        """

    async def delivery_page(
        self, wanted: DeliveryFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[DeliverySummary]:
        """Return the newest wanted deliveries that are found in bounded work.

        It examines at most `examine` deliveries; with `text` only those with the words count. It examines more only
        where an index finds everything that can match.
        """

    async def look_end(self, *, examine: int, before: int | None = None) -> LookEnd | None:
        """Return the oldest of the newest `examine` deliveries; None if no delivery is older."""

    async def plan(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> DeliveryPlan:
        """Return what an action on the wanted deliveries would touch; with `after`, only on those after it."""

    def iter_deliveries(
        self, wanted: DeliveryFilter, *, after: Cursor | None = None, by_job: bool = False
    ) -> AsyncIterator[StoredDelivery]:
        """Yield the wanted deliveries with their bodies, the oldest first, in flat memory.

        With `by_job` they come job by job, in the order of job ids; those without a job come last. Deliveries whose
        body was pruned are left out, and so are those that arrive after the reading has begun. `after` continues
        after a place, with the same filter and order. A `limit` counts from the newest again: give `until` too.
        A body that cannot be read is empty, and `unreadable` of the delivery says why.
        """

    async def failed_handlers(self, seq: int) -> frozenset[HandlerName]:
        """Return the handlers with a work item for this delivery that is dead or whose last attempt failed."""

    async def resolve(self, prefix: str) -> DeliveryKey:
        """Return the only key with this prefix, or raise UnknownDelivery, which names the candidates."""

    async def detail(self, key: DeliveryKey) -> DeliveryDetail:
        """Return everything known about a delivery, or raise UnknownDelivery."""

    async def subjects(self, seqs: Sequence[int]) -> Mapping[int, Subject]:
        """Return what the deliveries with these seqs are about, read from their bodies one by one.

        A delivery is absent if its body was pruned, is damaged, or is longer than `subjects.MAX_SUBJECT_BODY`.
        """

    async def search_reach(self) -> SearchReach | None:
        """Return how far the index of words reaches; None without an index."""


class FeedReader(Protocol):
    """Follow deliveries as they arrive and change."""

    async def since(self, wanted: DeliveryFilter, *, after: int, limit: int) -> FeedPage:
        """Examine at most `limit` deliveries after the seq `after`, and return the wanted ones."""

    async def by_seqs(self, wanted: DeliveryFilter, seqs: Sequence[int]) -> Sequence[DeliverySummary]:
        """Return the wanted ones of the deliveries with these seqs, the oldest first; `limit` is ignored."""

    async def arrivals(self, since: datetime) -> Mapping[datetime, int]:
        """Return how many deliveries arrived in each minute since a moment, by the beginning of the minute.

        Scheduled runs, which did not arrive, are not counted. The minute that contains `since` is complete. The
        counts are kept for `activity.ACTIVITY_KEPT`, and may include deliveries that have been pruned since.
        """

    async def open_seqs(self, *, limit: int) -> Sequence[int]:
        """Return the seqs of at most `limit` deliveries that are NEW or WORKING, the newest first."""

    async def changed(self) -> None:
        """Return soon after another process, or this one, has changed something since the last call.

        It may return early. Raises StoreError when another database has replaced the one that was opened.
        """

    async def require_present(self) -> None:
        """Raise StoreError when another database has replaced the one that was opened."""


class WorkReader(Protocol):
    """Read work items."""

    def work_items(self, wanted: WorkFilter, *, before: int | None = None) -> AsyncIterator[WorkSummary]:
        """Yield the wanted work items, the newest first, in flat memory; with `before` those with a lower id."""

    async def work_page(
        self, wanted: WorkFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[WorkSummary]:
        """Return the newest wanted work items that are found in bounded work, as `delivery_page` does."""

    async def work_item(self, work_id: int) -> WorkDetail:
        """Return a work item with its attempts, or raise UnknownWork."""

    async def work_plan(self, wanted: WorkFilter) -> WorkPlan:
        """Return what an action on the wanted work items would touch."""

    def work_ids(
        self, wanted: WorkFilter, plan: WorkPlan, *, newest_first: bool = False
    ) -> AsyncIterator[Sequence[int]]:
        """Yield the ids of planned items that still match the filter, at most 500 at a time."""


class QuarantineReader(Protocol):
    """Read requests in quarantine."""

    def quarantined_requests(
        self, wanted: QuarantineFilter, *, before: int | None = None
    ) -> AsyncIterator[QuarantinedSummary]:
        """Yield the requests in quarantine, the newest first, in flat memory; with `before` those of lower ids."""

    async def quarantined_request(self, request_id: int) -> Quarantined:
        """Return a request in quarantine, or raise UnknownRequest."""


class JobReader(Protocol):
    """Read the service's jobs, as their deliveries show them."""

    def jobs(
        self, wanted: JobFilter, *, before: int | None = None, through: int | None = None
    ) -> AsyncIterator[JobSummary]:
        """Yield the wanted jobs, the one with the newest delivery first, in flat memory.

        `before` and `through` are seqs: the last delivery of a job must be earlier than `before`, and not earlier
        than `through`. Jobs earlier than `through` are not examined.
        """

    async def resolve_job(self, prefix: str) -> str:
        """Return the only job id with this prefix, or raise UnknownJob, which names the candidates."""

    async def job(self, job_id: str) -> JobDetail:
        """Return everything known about a job, or raise UnknownJob."""


class HealthReader(Protocol):
    """Read how handlers are doing, and how much work is left."""

    async def count_unfinished(self) -> int:
        """Return how many deliveries are NEW or WORKING."""

    async def handlers(self, *, count_done: bool = True) -> Sequence[HandlerReport]:
        """Return every handler that has work items, a switch or a schedule, by name, and perhaps others that had.

        This reads all work items. Without `count_done` it reads only those that are not DONE, and leaves out the
        number of the DONE ones and the `latency`.
        """

    async def handler_names(self) -> Sequence[HandlerName]:
        """Return the names of all handlers that have work items, and perhaps of others that had some."""

    async def switches(self) -> Mapping[HandlerName, HandlerSwitch]:
        """Return the handlers that are not ON."""

    async def waiting(self) -> Mapping[HandlerName, int]:
        """Return how many work items of each handler have not begun; a handler without any is absent."""

    async def backlog(self, now: datetime) -> Backlog:
        """Return how much work is left."""

    async def activity(
        self, *, since: datetime, step: timedelta, handler: HandlerName | None = None
    ) -> Sequence[ActivityCount]:
        """Return what handlers did since a moment, or one of them, in steps of whole minutes.

        A worker writes the counts once a second or with its next sign; they are kept for `activity.ACTIVITY_KEPT`.
        Attempts that were recorded together count in the minute in which the last of them ended. Steps begin at
        multiples of their length since 1970, and the one that contains `since` is complete.
        """

    async def workers(self) -> Sequence[WorkerReport]:
        """Return the workers that have not signed off, by name. A killed one is among them for a while.

        Its `is_dead` is set at once where the store can be certain, as on one machine with Linux.
        """

    async def paces(self) -> Mapping[HandlerName, datetime]:
        """Return the moments before which the next attempts of handlers with a rate should not begin.

        A handler that no longer has a rate may be among them.
        """

    async def facts(self) -> StoreFacts:
        """Return how large the store is."""


class ActionReader(Protocol):
    """Read what people did."""

    async def actions(self, *, limit: int, before: int | None = None) -> Sequence[RecordedAction]:
        """Return at most `limit` recorded actions, the newest first; with `before` those with a lower number."""

    async def action(self, number: int) -> RecordedAction:
        """Return a recorded action, or raise UnknownAction."""


class Reports(
    DeliveryReader, FeedReader, WorkReader, QuarantineReader, JobReader, HealthReader, ActionReader, Protocol
):
    """Everything that can be read."""
