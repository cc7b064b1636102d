"""Whether a value fits a JSON Schema, in bounded time: hostile patterns and references do not run away."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema
import re2
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from receiver.service.emulator.extraction.schemas import MAX_STEPS, Json, SchemaTooLarge

MAX_ERRORS = 100
"""Errors that are reported."""
_Check = Callable[[Any, Any, Any, Any], Iterator[jsonschema.ValidationError] | None]


def schema_errors(value: Any, schema: Json) -> list[tuple[list[str | int], str]]:
    """Return where a value breaks the schema, and how. SchemaTooLarge if telling that takes too many steps."""
    counted = _CountedSteps(MAX_STEPS)
    checks = {name: counted.around(check) for name, check in _CHECKS.items()}
    validator: type[Validator] = jsonschema.validators.extend(jsonschema.Draft202012Validator, checks)
    errors: list[tuple[list[str | int], str]] = []
    try:
        for error in validator(schema, registry=_NO_DOCUMENTS).iter_errors(value):
            errors.append((list(error.absolute_path), str(error.message)[:200]))
            if len(errors) == MAX_ERRORS:
                break
    except RecursionError:
        raise SchemaTooLarge from None
    except SchemaTooLarge:
        raise
    except _BROKEN as exc:
        errors.append(([], f"the schema cannot be checked: {str(exc)[:200]}"))
    return errors


_NO_DOCUMENTS: Registry[Any] = Registry()
"""It knows the document itself, and fetches no other."""


_BROKEN = (Unresolvable, jsonschema.exceptions.UnknownType, TypeError, ValueError, AttributeError, LookupError)
"""What the library raises for a schema that is none."""


class _CountedSteps:
    """Counts the keywords that one validation looks at."""

    def __init__(self, most: int) -> None:
        self._left = most

    def around(self, check: _Check) -> _Check:
        def counted(validator: Any, keyword: Any, value: Any, schema: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise SchemaTooLarge
            return check(validator, keyword, value, schema)

        return counted


def _pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Check a pattern in linear time; one that RE2 cannot do is not checked."""
    if isinstance(value, str) and (compiled := _compiled(pattern)) is not None and not compiled.search(value):
        yield jsonschema.ValidationError(f"{value[:50]!r} does not match {str(pattern)[:50]!r}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(value, Mapping) or not isinstance(patterns, Mapping):
        return
    for pattern, subschema in patterns.items():
        compiled = _compiled(pattern)
        for name in value if compiled is not None else ():
            if compiled.search(name):
                yield from validator.descend(value[name], subschema, path=name, schema_path=pattern)


def _compiled(pattern: Any) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(str(pattern), options)
    except re2.error:
        return None


_CHECKS: dict[str, _Check] = {
    **jsonschema.Draft202012Validator.VALIDATORS,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
}
