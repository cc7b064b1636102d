"""The tables of signals in the guide."""

from receiver.core.guide import field_texts
from receiver.core.text import table
from receiver.signals import contracts


def _signals() -> dict[str, type]:
    """Return the record that each signal passes, by the signal's name."""
    return {
        name: getattr(contracts, "".join(part.capitalize() for part in name.split("_")))
        for name in contracts.__all__
        if isinstance(getattr(contracts, name), contracts.Signal)
    }


def signals_table() -> str:
    """Return a table of all signals with their meaning."""
    return table(("signal", "meaning"), [(f"`{name}`", getattr(contracts, name).__doc__) for name in _signals()])


def record_fields_table() -> str:
    """Return a table of the fields of all records: each field once for each meaning that it has."""
    found: dict[tuple[str, str], list[str]] = {}
    for record in _signals().values():
        for field, text in field_texts(record).items():
            found.setdefault((field, text), []).append(f"`{record.__name__}`")
    rows = [(f"`{field}`", text, ", ".join(records)) for (field, text), records in found.items()]
    return table(("field", "meaning", "in"), rows)
