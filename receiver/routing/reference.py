"""The table of handler options in the guide."""

from receiver.core.field_texts import field_texts
from receiver.core.markdown import table
from receiver.routing.options import HandlerOptions


def options_table() -> str:
    """Return a table of the options of a handler with their meaning and default."""
    rows = [(f"`{name}=`", text) for name, text in field_texts(HandlerOptions).items()]
    return table(("option", "meaning and default"), rows)
