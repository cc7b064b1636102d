"""Why a value was refused, as people say it: pydantic's reasons are about Python types."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from receiver.core.durations import WRONG_DURATION, in_words

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
    """Return the reason of one of pydantic's error details in plain words. It never has the input.

    The details need their context, for the limits.
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
