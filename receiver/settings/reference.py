"""The table of all settings in the guide."""

from datetime import timedelta

from pydantic.fields import FieldInfo

from receiver.core.text import table
from receiver.core.units import in_words, written_size
from receiver.settings.model import Settings
from receiver.settings.values import READ_SIZE

_DEPENDS = {
    "max_in_flight": "an eighth of the memory, at most `256MiB`",
    "processes": "number of cores",
    "max_memory": "three quarters of the memory, divided by `WORKERS`",
}
"""Defaults that depend on the machine, in words."""


def settings_table() -> str:
    """Return a Markdown table of all settings: name without its prefix, default, and meaning."""
    rows = [
        (
            f"`{name.upper()}`",
            f"`{default}`" if (default := default_text(field)) else _DEPENDS.get(name, ""),
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]
    return table(("`RECEIVER_…`", "default", "meaning"), rows)


def default_text(field: FieldInfo) -> str:
    """Return the default of a setting as people write it; empty without one, and if it depends on the machine."""
    if field.default_factory or field.default in (None, ()):
        return ""
    if READ_SIZE in field.metadata:
        return written_size(field.default)
    if isinstance(field.default, timedelta):
        return in_words(field.default)
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
