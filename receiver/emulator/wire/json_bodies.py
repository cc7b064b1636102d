"""JSON bodies as the service's runtime sees them: numbers are doubles, texts are Unicode, null is absent."""

import json
from typing import Any

from receiver.emulator.failures import CallRefused

Json = dict[str, Any]

MAX_DEPTH = 100
"""Levels of arrays and objects in a body. What walks over a body below this may recurse."""
MAX_VALUES = 500_000
"""Values in a body. It bounds the memory of a body of 10 MB, which could have five million."""
MAX_SAFE_INTEGER = 2**53 - 1
"""Larger integers are not exact in the service's runtime, and no field takes them."""
_KEPT_AS_THEY_ARE = frozenset({"schema", "metadata"})
"""A JSON Schema may say `null`, as in `{"default": null}`; the metadata of a webhook are the caller's own data."""


def parse_body(data: bytes) -> Json:
    """Return the object of a JSON body as it was sent; a CallRefused with status 400 for anything else."""
    if not data.strip():
        return {}
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
        body = _Reader().read(value)
    except (ValueError, OverflowError, RecursionError):  # errors of decoding are ValueErrors
        raise _malformed() from None
    if not isinstance(body, dict):
        raise CallRefused(400, "Bad Request", code="BAD_REQUEST", details=[_NO_OBJECT])
    return body


def without_nulls(body: Json) -> Json:
    """Return the object without the members that are null, at any level, but for what belongs to the caller."""
    return {
        key: value if key in _KEPT_AS_THEY_ARE else _without_nulls(value)
        for key, value in body.items()
        if value is not None
    }


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return without_nulls(value)
        case list():
            return [_without_nulls(item) for item in value]
    return value


_NO_OBJECT = {
    "code": "invalid_type",
    "expected": "object",
    "path": [],
    "message": "The body has to be a JSON object",
}


def _malformed() -> CallRefused:
    return CallRefused(400, "Bad request, malformed JSON", code="BAD_REQUEST_INVALID_JSON")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Reader:
    """Makes the values of one body those that the service's runtime would have."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, value: Any, depth: int = 0) -> Any:
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_VALUES:
            raise ValueError("too deep, or too many values")
        match value:
            case str():
                return _well_formed(value)
            case bool() | None:
                return value
            case int() | float():
                return _as_double(value)
            case list():
                return [self.read(item, depth + 1) for item in value]
            case dict():
                return {_well_formed(key): self.read(item, depth + 1) for key, item in value.items()}
        raise ValueError("no JSON")


def _well_formed(text: str) -> str:
    """Return the text with U+FFFD in place of lone surrogates, which no UTF-8 can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _as_double(value: float) -> int | float:
    """Return the number as a double has it: 30000.0 is the integer 30000, and 10**20 is no exact integer."""
    number = float(value)
    if number in (float("inf"), float("-inf")):
        raise ValueError("the number is too large")
    if number.is_integer() and abs(number) <= MAX_SAFE_INTEGER:
        return int(number)
    return number
