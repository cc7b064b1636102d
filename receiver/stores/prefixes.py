"""The message for a shortened id that matches nothing, or several things."""

from collections.abc import Sequence

from receiver.core.text import first_of, plural

MAX_NAMED = 5
"""How many candidates a message names. A store needs to find at most one more than these."""


def candidates(prefix: str, keys: Sequence[str], *, noun: str = "event") -> str:
    """Return a sentence that names the first candidates."""
    if not keys:
        return f"no {noun} matched {prefix!r}"
    return f"several {plural(noun)} have an id that begins with {prefix!r}: {first_of(keys, MAX_NAMED)}"
