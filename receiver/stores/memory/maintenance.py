"""Pruning in a store in memory."""

from datetime import datetime

from receiver.core.activity import PruneRule, Step, to_minute
from receiver.core.bulk import DeliveryPlan
from receiver.core.deliveries import DeliverySummary
from receiver.stores.memory.reports import plan_of
from receiver.stores.memory.state import MemoryFace, MemoryState, forget_words, newest


class MemoryMaintenance(MemoryFace):
    """Maintenance. The process gets memory back by itself, so there is nothing to compress or to shrink."""

    async def prunable(self, rule: PruneRule) -> DeliveryPlan:
        """Return what pruning by this rule would remove now."""
        return plan_of(self._prunable(rule))

    async def prune(self, rule: PruneRule, *, after: int, limit: int, now: datetime) -> Step:
        """Remove deliveries, or their bodies."""
        found = sorted((one for one in self._prunable(rule) if one.seq > after), key=lambda one: one.seq)
        chosen = found[:limit]
        for one in chosen:
            forget_words(self.state, one.seq)
            if rule.bodies:
                self._remove_body(one)
            else:
                remove_delivery(self.state, one.seq)
        goes_on = chosen[-1].seq if len(found) > limit else None
        return Step(len(chosen), sum(one.size for one in chosen), goes_on)

    async def forget(self, before: datetime, *, limit: int) -> int:
        """Forget keys that handlers used once."""
        old = [used for used, (at, _) in self.state.once_keys.items() if at < before][:limit]
        for used in old:
            del self.state.once_keys[used]
        return len(old)

    async def forget_workers(self, before: datetime) -> None:
        """Forget workers that nobody has seen since."""
        for name in [name for name, (_, seen_at) in self.state.workers.items() if seen_at < before]:
            del self.state.workers[name]

    async def forget_activity(self, before: datetime) -> int:
        """Forget what handlers did."""
        old = [row for row in self.state.minutes if row[0] < to_minute(before)]
        for row in old:
            del self.state.minutes[row]
        return len(old)

    async def forget_actions(self, before: datetime, *, keep: int, limit: int) -> int:
        """Forget what people did."""
        last = self.state.last_action - keep
        old = [one.id for one in self.state.actions.values() if one.began_at < before or one.id <= last][:limit]
        for number in old:
            del self.state.actions[number]
        return len(old)

    async def compress(self, *, limit: int) -> Step:
        """Do nothing."""
        return Step(0, 0, None)

    async def reclaim(self, limit: int) -> int:
        """Do nothing."""
        return 0

    def _prunable(self, rule: PruneRule) -> list[DeliverySummary]:
        found = [summary for _, summary in newest(self.state, rule.chosen())]
        return [one for one in found if (one.has_body or not rule.bodies) and not self._stops_lane(one.seq)]

    def _stops_lane(self, seq: int) -> bool:
        return any(one.heads_lane for one in self.state.work_of(seq))

    def _remove_body(self, one: DeliverySummary) -> None:
        stored = self.state.deliveries[one.seq]
        self.state.pruned[one.seq] = one.size
        bare = stored.delivery._replace(headers=(), body=b"")
        self.state.deliveries[one.seq] = stored._replace(delivery=bare)


def remove_delivery(state: MemoryState, seq: int) -> None:
    """Remove a delivery with its work items."""
    for row in list(state.work_of(seq)):
        del state.work[row.id]
    del state.seqs[state.deliveries.pop(seq).delivery.key]
    state.pruned.pop(seq, None)
