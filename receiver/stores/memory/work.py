"""Reading work items from a store in memory."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from receiver.core.bulk import WorkPlan
from receiver.core.listing_pages import ListingPage
from receiver.core.work import WorkDetail, WorkFilter, WorkSummary
from receiver.errors import UnknownWork
from receiver.stores.memory.face import MemoryFace
from receiver.stores.memory.listing import look_end, newest_work, page_until, work_summary

MAX_ITEMS = 500
"""Ids that are yielded together."""


class MemoryWork(MemoryFace):
    """A WorkReader."""

    async def work_items(self, wanted: WorkFilter, *, before: int | None = None) -> AsyncIterator[WorkSummary]:
        """Yield the wanted work items, the newest first."""
        for one in newest_work(self.state, wanted, before=before):
            yield one

    async def work_page(
        self, wanted: WorkFilter, *, examine: int, before: int | None = None
    ) -> ListingPage[WorkSummary]:
        """Return the newest wanted work items that a short look finds."""
        state = self.state
        received = {one.id: state.deliveries[one.seq].delivery.received_at for one in state.work.values()}
        end = look_end(received, before, examine)
        return page_until(end, newest_work(state, wanted, before=before), wanted.limit, lambda one: one.id)

    async def work_item(self, work_id: int) -> WorkDetail:
        """Return a work item with its attempts."""
        if work_id not in self.state.work:
            raise UnknownWork(work_id)
        row = self.state.work[work_id]
        return WorkDetail(work_summary(self.state, row), tuple(row.history))

    async def work_plan(self, wanted: WorkFilter) -> WorkPlan:
        """Return what an action on the wanted work items would touch."""
        return WorkPlan.of(list(newest_work(self.state, wanted)))

    async def work_ids(
        self, wanted: WorkFilter, plan: WorkPlan, *, newest_first: bool = False
    ) -> AsyncIterator[Sequence[int]]:
        """Yield the ids of the items that were planned for and still fit."""
        unlimited = replace(wanted, limit=None)
        found = [one.id for one in newest_work(self.state, unlimited)]
        planned = [work_id for work_id in found if plan.first_id <= work_id <= plan.last_id]
        planned = (planned if newest_first else planned[::-1])[: plan.count]
        for start in range(0, len(planned), MAX_ITEMS):
            still = {one.id for one in newest_work(self.state, unlimited)}
            yield [work_id for work_id in planned[start : start + MAX_ITEMS] if work_id in still]
