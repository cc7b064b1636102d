"""The tables of signals and metrics in the guide."""

import dataclasses

from receiver.core.markdown import table
from receiver.signals import contracts


def signals_table() -> str:
    """Return a table of all signals: name, meaning, and the fields of the record that each one passes."""
    rows = []
    for name in contracts.__all__:
        signal = getattr(contracts, name)
        if isinstance(signal, contracts.Signal):
            record = getattr(contracts, _record_of(name))
            fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(record))
            rows.append((f"`{name}`", signal.__doc__ or "", fields))
    return table(("signal", "meaning", "fields of its record"), rows)


def _record_of(signal: str) -> str:
    return "".join(part.capitalize() for part in signal.split("_"))
