"""What the web process needs of a store: to append."""

import asyncio
from datetime import datetime
from typing import Protocol

from receiver.core.deliveries import Delivery, Receipt
from receiver.core.quarantine import Quarantined


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
