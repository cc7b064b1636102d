"""Texts for people and for stores: counted nouns, lists, hints, reasons, Markdown, and harmless characters."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from receiver.core.schedules import RUN_KEY_PREFIX
from receiver.core.units import WRONG_DURATION, in_words

MAX_WIDTH = 1_000
"""Characters of a text that is shown on one line."""
_LEAST_ALIKE = 0.6
"""The least similarity of a suggested name to a wrong one. Equal names have 1."""
_ALIKE = 0.1
"""How much less similar than the nearest name another suggestion may be."""


def escape_controls(outside: str, *, keep: str = "") -> str:
    """Return text with escapes in place of characters that could control a terminal, except those in `keep`."""
    if outside.isprintable():
        return outside
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii")
        for char in outside
    )


def escape_controls_in_json(written: str) -> str:
    """Return a JSON text of one line with JSON escapes in place of characters that could control a terminal.

    Its value is the same, since such characters occur only in its strings.
    """
    if written.isprintable():
        return written
    return "".join(char if char.isprintable() else _json_escape(char) for char in written)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def short_id(key: str) -> str:
    """Return the beginning of a delivery's id: enough to recognize it, and to ask for it.

    The ids of scheduled runs are not shortened, because they differ at their ends.
    """
    if key.startswith(RUN_KEY_PREFIX):
        return escape_controls(key)
    is_uuid = len(key) == 36 and key[8] == "-"
    return escape_controls(key[:8] if is_uuid else key[:15])


def short_job_id(job_id: str) -> str:
    """Return the beginning of a job's id. The service's ids begin with their time, in 13 characters."""
    is_uuid = len(job_id) == 36 and job_id[13:14] == "-"
    return escape_controls(job_id[:13] if is_uuid else job_id[:15])


def storable(text: str) -> str:
    """Return text that every store accepts: no lone surrogates, and no NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def shortened(text: str, width: int = MAX_WIDTH) -> str:
    """Return a text of at most `width` characters; a mark follows where a longer one was cut."""
    return text if len(text) <= width else text[:width] + "…"


def plural(noun: str) -> str:
    """Return the plural: `work items`, `deliveries`."""
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"


def counted(number: int, noun: str) -> str:
    """Return `1 work item`, `12,000 work items`."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names with commas between them, and a mark if there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def resembling(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that resemble a wrong one, the nearest first.

    A name that is much nearer than the others is returned alone.
    """
    known = list(known)
    nearest = max((difflib.SequenceMatcher(a=one, b=name).ratio() for one in known), default=0.0)
    return difflib.get_close_matches(name, known, n=3, cutoff=max(_LEAST_ALIKE, nearest - _ALIKE))


def did_you_mean(names: Sequence[str]) -> str:
    """Return `; did you mean A, B or C?`, or an empty text without names."""
    if not names:
        return ""
    return f"; did you mean {', '.join(names[:-1])}{' or ' * (len(names) > 1)}{names[-1]}?"


def literal(text: str) -> str:
    """Return a glob that matches only this text."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


_REASONS = {
    "missing": "this is missing",
    "extra_forbidden": "there is no such field",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_parsing_size": "write a smaller number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "string_type": "write a text",
    "tuple_type": "write a list",
    "list_type": "write a list",
    "dict_type": "write an object",
    "mapping_type": "write an object",
    "model_type": "write an object",
    "model_attributes_type": "write an object",
    "time_delta_type": WRONG_DURATION,
    "time_delta_parsing": WRONG_DURATION,
    "timezone_aware": "it needs a time zone, such as Z",
    "greater_than": "it has to be more than {gt}",
    "greater_than_equal": "it has to be {ge} or more",
    "less_than": "it has to be less than {lt}",
    "less_than_equal": "it has to be {le} or less",
    "literal_error": "it has to be {expected}",
    "enum": "it has to be {expected}",
    "string_too_short": "write {min_length} or more characters",
    "string_too_long": "write {max_length} or fewer characters",
    "too_short": "list {min_length} or more",
    "too_long": "list {max_length} or fewer",
}
_DURATION = re.compile(r"datetime\.timedelta\(((?:\w+=\d+(?:, )?)*|0)\)|(\d+) seconds")
_PART = re.compile(r"(\w+)=(\d+)")


def plain_reason(error: Mapping[str, Any]) -> str:
    """Return the reason of one of pydantic's error details in plain words, without the input.

    The details must include their context, which has the limits.
    """
    limits = {name: _written(limit) for name, limit in error.get("ctx", {}).items()}
    known = _REASONS.get(error["type"])
    if known is not None:
        return known.format_map(limits)
    reason: str = error["msg"]
    return reason.removeprefix("Value error, ").replace("Input should be", "it has to be")


def _written(limit: object) -> object:
    """Return a limit as people write it; pydantic gives durations as texts for Python, or as `10 seconds`."""
    if isinstance(limit, str) and (found := _DURATION.fullmatch(limit)):
        given = {name: int(number) for name, number in _PART.findall(found[1] or "")}
        return in_words(timedelta(**given) if found[2] is None else timedelta(seconds=int(found[2])))
    if isinstance(limit, float) and limit.is_integer():
        return int(limit)
    return in_words(limit) if isinstance(limit, timedelta) else limit


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, by GitHub's rule."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table. A bar in the text of a cell does not end the cell."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
