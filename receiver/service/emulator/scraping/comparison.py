"""Whether a page is still the same, and which of its extracted values differ."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

MAX_VALUE_CHANGES = 10_000
"""Changed values that a comparison lists at most."""
_IFRAME = re.compile(r"\[iframe\]\([^)\n]*\)")


def is_same_text(old: str, new: str) -> bool:
    """Tell whether two Markdown texts count as equal: they have the same characters, each equally often.

    White space and embedded frames do not count, and neither does the order: text that only moved is the same.
    """
    return old == new or Counter(_essence(old)) == Counter(_essence(new))


def _essence(markdown: str) -> str:
    return "".join(_IFRAME.sub("", markdown).split())


def changed_keys(old: Any, new: Any) -> Json:
    """Return `{key: {previous, current}}` for the top-level keys of two extractions whose values differ."""
    before = old if isinstance(old, Mapping) else {}
    after = new if isinstance(new, Mapping) else {}
    return {
        key: {"previous": before.get(key), "current": after.get(key)}
        for key in dict.fromkeys((*before, *after))
        if not _is_equal(before.get(key), after.get(key))
    }


def _is_equal(one: Any, other: Any) -> bool:
    # In Python 1 == True == 1.0; in JSON only the numbers are equal.
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    match one, other:
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


def changed_paths(old: Any, new: Any) -> Json:
    """Return `{path: {previous, current}}` for the values of two extractions that differ, such as `jobs[1].pay`.

    Strings that differ only in white space or in the form of their Unicode are equal.
    """
    changes: Json = {}
    for path, before, after in _leaves(old, new):
        if len(changes) == MAX_VALUE_CHANGES:
            break
        changes[path] = {"previous": before, "current": after}
    return changes


def _leaves(old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs, in the order of the page; an explicit stack, for values of any depth."""
    stack: list[tuple[str, Any, Any]] = [("", old, new)]
    while stack:
        path, before, after = stack.pop()
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            keys = dict.fromkeys((*before, *after))
            inner = [(f"{path}.{key}" if path else key, before.get(key), after.get(key)) for key in keys]
            stack.extend(reversed(inner))
        elif _is_list(before) and _is_list(after):
            size = max(len(before), len(after))
            stack.extend((f"{path}[{at}]", _item(before, at), _item(after, at)) for at in reversed(range(size)))
        elif not _is_equal(_folded(before), _folded(after)):
            yield path, before, after


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _item(values: Sequence[Any], at: int) -> Any:
    return values[at] if at < len(values) else None


def _folded(value: Any) -> Any:
    return " ".join(unicodedata.normalize("NFC", value).split()) if isinstance(value, str) else value
