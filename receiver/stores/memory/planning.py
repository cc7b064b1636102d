"""What a store in memory counts before a mass action."""

from collections import Counter
from collections.abc import Sequence

from receiver.keeping import MOST_TYPES, DeliveryPlan, WorkKind, WorkPlan
from receiver.records import DeliverySummary, WorkSummary


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


def planned_work(found: Sequence[WorkSummary]) -> WorkPlan:
    """Count work items."""
    kinds = Counter(WorkKind(one.handler, one.type, one.state) for one in found)
    most = dict(kinds.most_common(MOST_TYPES))
    return WorkPlan(
        count=len(found),
        first_id=min((one.id for one in found), default=0),
        last_id=max((one.id for one in found), default=0),
        first_at=min((one.received_at for one in found), default=None),
        last_at=max((one.received_at for one in found), default=None),
        kinds=most,
        others=len(found) - sum(most.values()),
    )
