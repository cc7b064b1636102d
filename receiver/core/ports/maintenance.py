"""What keeps a store small."""

from datetime import datetime
from typing import Protocol

from receiver.core.bulk import DeliveryPlan
from receiver.core.retention import PruneRule, Step


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

    async def forget_workers(self, before: datetime) -> None:
        """Forget workers that were seen last before a moment."""

    async def forget_activity(self, before: datetime) -> int:
        """Forget what handlers did before a moment, an hour of it at most; return how many counts, 0 at the end."""

    async def forget_actions(self, before: datetime, *, keep: int, limit: int) -> int:
        """Forget actions that began before a moment, and all but the newest `keep`; return how many.

        Those are at most `limit`, and fewer at the end.
        """

    async def compress(self, *, limit: int) -> Step:
        """Write bodies smaller of deliveries that have been routed, at most `limit`; `size` is what that saved."""

    async def reclaim(self, limit: int) -> int:
        """Give about so many unused bytes back to the file system at most; return how many, 0 at the end."""
