"""The table of event types in the guide."""

from receiver.core.text import table
from receiver.events.catalog import EVENT_CLASSES


def event_table() -> str:
    """Return a table of all known types: the type, its class, and the bases by which a handler can want it."""
    rows = []
    for name, one in EVENT_CLASSES.items():
        bases = ", ".join(f"`{base.__name__}`" for base in one.__mro__[1:] if _is_choice(base))
        rows.append((f"`{name}`", f"`{one.__name__}`", bases, (one.__doc__ or "").partition("\n")[0]))
    return table(("type", "class", "also wanted as", "meaning"), rows)


def _is_choice(base: type) -> bool:
    return base.__module__.startswith("receiver.events.") and base.__module__.count(".") == 2
