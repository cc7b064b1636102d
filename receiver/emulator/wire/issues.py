"""The service's 400 for a body that breaks a rule: code BAD_REQUEST, a text, and a list of issues."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from receiver.emulator.failures import CallRefused
from receiver.emulator.wire.policy import RequestPolicy

Json = dict[str, Any]
Body = TypeVar("Body", bound=BaseModel)

MAX_ISSUES = 100
"""The most issues that an answer lists."""
_EXPECTED = {
    "string_type": "string",
    "int_type": "int",
    "int_from_float": "int",
    "float_type": "number",
    "finite_number": "number",
    "bool_type": "boolean",
    "tuple_type": "array",
    "list_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
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
    """Return the body in a model's form, by its wire names alone. CallRefused with status 400 lists every issue.

    `path` is where the body stands in a larger one.
    """
    try:
        return _validated(model, body, policy)
    except ValidationError as exc:
        raise refusal(_issues_of(exc, model, body, policy, path), version=version) from None


def refusal(issues: Sequence[Json], *, version: int = 2) -> CallRefused:
    """Return the 400 for these issues: its text is that of unknown keys, else of the first rule, else general."""
    error = next((str(one["message"]) for one in issues if one["code"] == "custom"), "Bad Request")
    if any(one["code"] == "unrecognized_keys" for one in issues):
        error = f"Unrecognized key in body: version {version} of the API does not have it"
    return CallRefused(400, error, code="BAD_REQUEST", details=list(issues[:MAX_ISSUES]))


def custom_issue(message: str, *path: str | int) -> Json:
    """Return the issue for a rule that a type cannot say."""
    return {"code": "custom", "path": list(path), "message": message}


def _validated(model: type[Body], body: Json, policy: RequestPolicy) -> Body:
    return model.model_validate(body, by_alias=True, by_name=False, context=policy)


def _issues_of(
    error: ValidationError, model: type[Body], body: Json, policy: RequestPolicy, path: Sequence[str | int]
) -> list[Json]:
    if error.error_count() > MAX_ISSUES:  # each needs a kilobyte: leave most of the body out, and look again
        try:
            _validated(model, _shortened(body), policy)
        except ValidationError as exc:
            error = exc
        else:
            return [{"code": "custom", "path": list(path), "message": "Bad Request"}]
    issues: list[Json] = []
    for one in error.errors(include_url=False, include_input=False):
        if one["type"] != "too_short" or _is_short(body, one["loc"], one["ctx"]["min_length"]):
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
    """Append an issue; the unknown keys of one object are one issue."""
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
        place += _named_field(body, error["loc"], message)
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


def _is_short(body: Json, place: Sequence[str | int], fewest: int) -> bool:
    """Tell whether a list is too short as it was sent; wrong items, which do not count, are issues of their own."""
    value = _value_at(body, _real_path(body, place, "too_short"))
    return not isinstance(value, list) or len(value) < fewest


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _named_field(body: Json, place: Sequence[str | int], message: str) -> list[str | int]:
    """Return the field that the text of a rule about several fields begins with, if the object has it."""
    value = _value_at(body, _real_path(body, place, "value_error"))
    name, colon, _ = message.partition(": ")
    return [name] if colon and isinstance(value, dict) and name in value else []


def _real_path(body: Any, place: Sequence[str | int], kind: str) -> list[str | int]:
    """Return the path in the body: the error's also has the names of the forms that were tried."""
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
