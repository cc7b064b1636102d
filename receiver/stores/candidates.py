"""What to tell somebody whose shortened id names no delivery, or several."""

from collections.abc import Sequence

MOST = 5
"""Candidates named; a store need not look for more than one beyond."""


def candidates(prefix: str, keys: Sequence[str]) -> str:
    """Return the sentence."""
    if not keys:
        return f"no delivery has an id that begins with {prefix!r}"
    listed = ", ".join(keys[:MOST]) + (", …" if len(keys) > MOST else "")
    return f"several deliveries have an id that begins with {prefix!r}: {listed}"
