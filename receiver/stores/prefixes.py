"""What to tell somebody whose shortened id names nothing, or several things."""

from collections.abc import Sequence

from receiver.core.text import first_of, plural

MAX_NAMED = 5
"""Candidates that are named. A store need not look for more than one beyond."""


def candidates(prefix: str, keys: Sequence[str], *, noun: str = "delivery") -> str:
    """Return a sentence that names the first candidates."""
    if not keys:
        return f"no {noun} has an id that begins with {prefix!r}"
    return f"several {plural(noun)} have an id that begins with {prefix!r}: {first_of(keys, MAX_NAMED)}"
