"""What to tell somebody whose shortened id names nothing, or several things."""

from collections.abc import Sequence

MOST = 5
"""Candidates named; a store need not look for more than one beyond."""


def candidates(prefix: str, keys: Sequence[str], *, noun: str = "event") -> str:
    """Return the sentence."""
    if not keys:
        return f"no {noun} matched {prefix!r}"
    nouns = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    listed = ", ".join(keys[:MOST]) + (", …" if len(keys) > MOST else "")
    return f"several {nouns} have an id that begins with {prefix!r}: {listed}"
