"""The plan of a mass action on deliveries, as people read it before they agree."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.cli.output import counted, harmless, iso, short_id
from receiver.keeping import DeliveryPlan
from receiver.records import StoredDelivery

_SHOWN = 10
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def plan_lines(
    plan: DeliveryPlan, verb: str, *, first: Sequence[StoredDelivery] = (), by: Mapping[str, Mapping[str, int]] = {}
) -> Iterator[str]:
    """Yield how many deliveries there are, by type and by what else is counted, their span and the first few."""
    yield f"{counted(plan.count, 'delivery')} to {verb}, {size(plan.size)}"
    if plan.without_body:
        yield f"  {plan.without_body:,} of them are passed over: their bodies were pruned"
    for kind, counts in {"type": plan.types, **by}.items():
        yield f"  by {kind}"
        yield from _counts(counts, plan.others if kind == "type" else 0)
    if plan.first_at and plan.last_at:
        oldest, newest = iso(plan.first_at, "seconds"), iso(plan.last_at, "seconds")
        yield f"  arrived   {oldest}" + (f" to {newest}" if newest != oldest else "")
    for number, stored in enumerate(first):
        delivery = stored.delivery
        line = f"{iso(delivery.received_at, 'seconds')}  {delivery.type}  {short_id(delivery.key)}"
        yield f"  {'' if number else 'first':<9} {harmless(line)}"


def size(number: int) -> str:
    """Return a number of bytes in the unit that says enough, a thousand to each: `12 KB`, `3.4 MB`."""
    amount, unit = float(number), 0
    while amount >= 1_000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1_000, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit and amount < 10 else f"{amount:.0f} {_UNITS[unit]}"


def _counts(counts: Mapping[str, int], others: int) -> Iterator[str]:
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    for name, number in ordered[:_SHOWN]:
        yield f"    {number:>11,}  {harmless(name)}"
    if more := max(0, len(ordered) - _SHOWN) + (others > 0):
        yield f"                 and {more:,} more"
