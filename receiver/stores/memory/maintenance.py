"""Pruning in a store in memory."""

from dataclasses import replace
from datetime import datetime

from receiver.core.bulk import DeliveryPlan
from receiver.core.deliveries import DeliverySummary
from receiver.core.retention import PruneRule, Step
from receiver.stores.memory.plans import planned
from receiver.stores.memory.reports import MemoryReports


class MemoryMaintenance(MemoryReports):
    """An Maintenance. Memory is given back by itself, so that there is nothing to compress or to shrink."""

    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        """Return what pruning by this rule would remove now."""
        return planned(self._prunable(rule))

    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        """Remove deliveries, or their bodies."""
        found = sorted((one for one in self._prunable(rule) if one.seq > after), key=lambda one: one.seq)
        chosen = found[:limit]
        for one in chosen:
            if rule.bodies:
                self._remove_body(one)
            else:
                self._remove(one)
        goes_on = chosen[-1].seq if len(found) > limit else None
        return Step(len(chosen), sum(one.size for one in chosen), goes_on)

    async def forget(self, before: datetime, *, limit: int) -> int:
        """Forget what handlers asked for once."""
        old = [asked for asked, (at, _) in self._onces.items() if at < before][:limit]
        for asked in old:
            del self._onces[asked]
        return len(old)

    async def compress(self, *, limit: int) -> Step:
        """Do nothing."""
        return Step(0, 0, None)

    async def shrink(self, pages: int) -> int:
        """Do nothing."""
        return 0

    def _prunable(self, rule: PruneRule) -> list[DeliverySummary]:
        found = [summary for _, summary in self._newest(rule.chosen())]
        return [one for one in found if one.has_body or not rule.bodies]

    def _remove_body(self, one: DeliverySummary) -> None:
        self._forget_words(one.seq)
        place = self._place(one.seq)
        stored = self._deliveries[place]
        self._pruned[one.seq] = one.size
        self._deliveries[place] = replace(stored, delivery=replace(stored.delivery, headers=(), body=b""))

    def _remove(self, one: DeliverySummary) -> None:
        self._forget_words(one.seq)
        del self._deliveries[self._place(one.seq)]
        del self._by_key[one.key]
        self._pruned.pop(one.seq, None)
        self._work = [work for work in self._work if work.source != one.seq]
