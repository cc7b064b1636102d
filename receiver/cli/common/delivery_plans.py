"""The plan of an action on many events, for people to read before they agree."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.cli.common.confirm import count_lines, span_and_first
from receiver.core.bulk import DeliveryPlan
from receiver.core.clock import local_time
from receiver.core.deliveries import StoredDelivery
from receiver.core.sizes import shown_size
from receiver.core.text import counted, short_id


def plan_lines(
    plan: DeliveryPlan,
    verb: str,
    *,
    first: Sequence[StoredDelivery] = (),
    by: Mapping[str, Mapping[str, int]] = {},
    width: int | None = None,
) -> Iterator[str]:
    """Yield how many events there are, in all, by type and by each key of `by`; their span of time, examples.

    Examples are wrapped if a width is given.
    """
    yield f"{counted(plan.count, 'event')} to {verb}, {shown_size(plan.size)}"
    if plan.without_body:
        yield f"  {plan.without_body:,} of them are skipped: their bodies were pruned"
    for kind, counts in {"type": plan.types, **by}.items():
        yield from count_lines(kind, counts, plan.others if kind == "type" else 0)
    yield from span_and_first(plan.first_at, plan.last_at, map(_line, first), width=width)


def _line(stored: StoredDelivery) -> str:
    delivery = stored.delivery
    return f"{local_time(delivery.received_at)}  {delivery.type}  {short_id(delivery.key)}"
