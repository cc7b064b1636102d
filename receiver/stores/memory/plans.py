"""What a store in memory counts before a mass action."""

from collections import Counter
from collections.abc import Sequence

from receiver.core.bulk import MOST_TYPES, DeliveryPlan
from receiver.core.deliveries import DeliverySummary


def planned(found: Sequence[DeliverySummary]) -> DeliveryPlan:
    """Count deliveries."""
    types = Counter(one.type for one in found)
    most = dict(sorted(types.items(), key=lambda one: (-one[1], one[0]))[:MOST_TYPES])
    return DeliveryPlan(
        count=len(found),
        size=sum(one.size for one in found),
        first_at=min((one.received_at for one in found), default=None),
        last_at=max((one.received_at for one in found), default=None),
        types=most,
        others=len(found) - sum(most.values()),
        without_body=sum(not one.has_body for one in found),
    )
