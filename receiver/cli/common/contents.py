"""How commands describe what a store holds."""

from receiver.cli.common.delivery_plans import size
from receiver.core.clock import iso
from receiver.core.text import counted
from receiver.stores.sqlite.backup import Contents


def contents_line(held: Contents) -> str:
    """Return how many events there are, when the last arrived, and the size of the file."""
    last = f", the last arrived {iso(held.last_at, 'seconds')}" if held.last_at else ""
    return f"{counted(held.deliveries, 'event')}{last}, {size(held.size)}"
