"""The bodies of requests: read from JSON, checked against a model, refused with the service's list of issues."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from receiver.emulator.failures import CallRefused
from receiver.emulator.options import EmulatorOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPolicy:
    """The part of the options that the readers of requests need."""

    threat_protection: Literal["off", "on", "mandatory"] = "off"
    """Whether requests may have threatProtection, and turn it off."""
    diff: Literal["auto", "string", "object"] = "auto"
    plain_hosts: frozenset[str] | None = frozenset({"localhost"})
    """Host names without a dot that URLs may have; None allows every name."""

    @classmethod
    def of(cls, options: EmulatorOptions) -> Self:
        """Return the policy of an emulator."""
        named = {urlsplit(origin).hostname or "" for origin in options.sites}
        return cls(
            threat_protection=options.threat_protection,
            diff=options.diff,
            plain_hosts=None if options.allow_private else frozenset({"localhost", *named}),
        )


DEFAULT_POLICY = RequestPolicy()
Json = dict[str, Any]
Body = TypeVar("Body", bound=BaseModel)

MAX_ISSUES = 100
"""The most issues that an answer lists."""
_EXPECTED = {
    **dict.fromkeys(("int_type", "int_from_float"), "int"),
    **dict.fromkeys(("float_type", "finite_number"), "number"),
    **dict.fromkeys(("tuple_type", "list_type"), "array"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "object"),
    "string_type": "string",
    "bool_type": "boolean",
}
_CODES = {
    "missing": "invalid_type",
    "extra_forbidden": "unrecognized_keys",
    "literal_error": "invalid_value",
    "string_pattern_mismatch": "invalid_format",
    "union_tag_invalid": "invalid_union",
    "union_tag_not_found": "invalid_union",
    "value_error": "custom",
}
_BOUNDS = {"too_small": ("too_short", "greater_than"), "too_big": ("too_long", "less_than")}


def read_body(
    model: type[Body], body: Json, policy: RequestPolicy, *, path: Sequence[str | int] = (), version: int = 2
) -> Body:
    """Return the body as a model, by its wire names alone. Raises CallRefused with status 400 and every issue.

    `path` is the place of the body in a larger one.
    """
    try:
        return _validated(model, body, policy)
    except ValidationError as exc:
        raise refusal(_issues_of(exc, model, body, policy, path), version=version) from None


def refusal(issues: Sequence[Json], *, version: int = 2) -> CallRefused:
    """Return the 400 for these issues. Its text is about unknown keys, or else the first rule, or else general."""
    error = next((str(one["message"]) for one in issues if one["code"] == "custom"), "Bad Request")
    if any(one["code"] == "unrecognized_keys" for one in issues):
        error = f"Unrecognized key in body: version {version} of the API does not have it"
    return CallRefused(400, error, code="BAD_REQUEST", details=list(issues[:MAX_ISSUES]))


def custom_issue(message: str, *path: str | int) -> Json:
    """Return the issue for a rule that no type expresses."""
    return {"code": "custom", "path": list(path), "message": message}


def _validated(model: type[Body], body: Json, policy: RequestPolicy) -> Body:
    return model.model_validate(body, by_alias=True, by_name=False, context=policy)


def _issues_of(
    error: ValidationError, model: type[Body], body: Json, policy: RequestPolicy, path: Sequence[str | int]
) -> list[Json]:
    if error.error_count() > MAX_ISSUES:  # each needs a kilobyte: check again without most of the body
        try:
            _validated(model, _shortened(body), policy)
        except ValidationError as exc:
            error = exc
        else:
            return [{"code": "custom", "path": list(path), "message": "Bad Request"}]
    issues: list[Json] = []
    for one in error.errors(include_url=False, include_input=False):
        if one["type"] == "too_short":
            # Wrong items, which do not count for the model, are issues of their own.
            value = _value_at(body, _real_path(body, one["loc"], "too_short"))
            if isinstance(value, list) and len(value) >= one["ctx"]["min_length"]:
                continue
        _add(issues, _issue(one, body, path))
    return issues


def _shortened(value: Any) -> Any:
    match value:
        case list():
            return [_shortened(item) for item in value[:MAX_ISSUES]]
        case dict():
            return {key: _shortened(value[key]) for key in list(value)[:MAX_ISSUES]}
    return value


def _add(issues: list[Json], issue: Json) -> None:
    """Append an issue; unknown keys of the same object are one issue."""
    if issue["code"] == "unrecognized_keys":
        for other in issues:
            if other["code"] == issue["code"] and other["path"] == issue["path"]:
                other["keys"] += issue["keys"]
                return
    issues.append(issue)


def _issue(error: Any, body: Json, path: Sequence[str | int]) -> Json:
    kind, context = error["type"], error.get("ctx", {})
    place = [*path, *_real_path(body, error["loc"], kind)]
    if kind == "extra_forbidden":
        return {"code": "unrecognized_keys", "keys": [place[-1]], "path": place[:-1], "message": "Unrecognized key"}
    message = _message(kind, str(error["msg"]), context)
    if kind == "value_error":
        # The text of a rule about several fields begins with the name of one.
        value = _value_at(body, _real_path(body, error["loc"], kind))
        name, colon, _ = message.partition(": ")
        place += [name] if colon and isinstance(value, dict) and name in value else []
    issue = {"code": _code(kind), "path": place, "message": message}
    expected = _EXPECTED.get(kind) or context.get("expected") or context.get("expected_tags")
    if expected is not None:
        issue["expected"] = expected
    return issue


def _code(kind: str) -> str:
    for code, parts in _BOUNDS.items():
        if any(part in kind for part in parts):
            return code
    return _CODES.get(kind, "invalid_type")


def _message(kind: str, text: str, context: Json) -> str:
    if kind == "missing":
        return "Required"
    if kind == "union_tag_invalid":
        return f"There is no {str(context['tag'])[:100]!r}: it has to be one of {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return "It does not say its type"
    if kind in _EXPECTED:
        return f"Invalid input: expected {_EXPECTED[kind]}"
    return (
        text.removeprefix("Value error, ").replace("Tuple should", "Array should").replace(" after validation", "")
    )


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _real_path(body: Any, place: Sequence[str | int], kind: str) -> list[str | int]:
    """Return the path in the body, without the names of the models that were tried."""
    path: list[str | int] = []
    value = body
    for number, step in enumerate(place):
        match value, step:
            case (dict(), str()) if step in value:
                value = value[step]
            case (list(), int()) if step < len(value):
                value = value[step]
            case _ if number < len(place) - 1 or kind != "missing":
                continue
        path.append(step)
    return path


MAX_DEPTH = 100
"""Levels of arrays and objects in a body. Within this limit a walk over a body may recurse."""
MAX_VALUES = 500_000
"""Values in a body, which limits its memory: a body of 10 MB could have five million."""
MAX_SAFE_INTEGER = 2**53 - 1
"""Larger integers are not exact in the service's runtime, and no field accepts them."""
_KEPT_AS_THEY_ARE = frozenset({"schema", "metadata"})
"""A JSON Schema may contain null, as in `{"default": null}`, and the metadata of a webhook belong to the caller."""


def parse_body(data: bytes) -> Json:
    """Return the object of a JSON body as the service's runtime has it: numbers are doubles, texts are Unicode.

    Raises CallRefused with status 400 for anything else.
    """
    if not data.strip():
        return {}
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
        body = _Reader().read(value)
    except (ValueError, OverflowError, RecursionError):  # errors of decoding are ValueErrors
        raise CallRefused(400, "Bad request, malformed JSON", code="BAD_REQUEST_INVALID_JSON") from None
    if not isinstance(body, dict):
        text = "The body has to be a JSON object"
        issue = {"code": "invalid_type", "expected": "object", "path": [], "message": text}
        raise CallRefused(400, "Bad Request", code="BAD_REQUEST", details=[issue])
    return body


def without_nulls(body: Json) -> Json:
    """Return the object without null members at any level, except in what belongs to the caller."""
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


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _Reader:
    """Turns the values of one body into those of the service's runtime."""

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
        raise ValueError("not JSON")


def _well_formed(text: str) -> str:
    """Return the text with U+FFFD instead of lone surrogates, which UTF-8 cannot have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _as_double(value: float) -> int | float:
    """Return the number of a double: 30000.0 is the integer 30000, and 10**20 is not an exact integer."""
    number = float(value)
    if number in (float("inf"), float("-inf")):
        raise ValueError("the number is too large")
    if number.is_integer() and abs(number) <= MAX_SAFE_INTEGER:
        return int(number)
    return number
