"""JSON Schemas, read and checked within limits: hostile patterns and references do not run away."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema
import re2
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

Json = dict[str, Any]

MAX_STEPS = 20_000
"""Schemas, with nested ones, that one extraction or validation visits."""
MAX_DEPTH = 24
"""Levels of a result."""
_EMPTY: Json = {}


class SchemaTooLarge(ValueError):
    """The schema takes too many steps: it is huge, or it refers to itself."""


class SchemaReader:
    """Reads the parts of one schema, with references resolved and alternatives listed.

    It counts its steps, and raises SchemaTooLarge for a schema without end.
    """

    def __init__(self, root: Any, most: int = MAX_STEPS) -> None:
        self._root = root
        self._most = most
        self.steps = 0
        """Parts that were read."""

    def alternatives(self, schema: Any) -> Iterator[Json]:
        """Yield the forms that a value may have: the schema itself, or each branch of its anyOf and oneOf.

        References are followed, and the parts of an allOf are merged.
        """
        waiting = [schema]
        while waiting:
            one = self._resolved(waiting.pop())
            branches = [*_list(one.get("anyOf")), *_list(one.get("oneOf"))]
            if not branches:
                yield one
                continue
            rest = {key: value for key, value in one.items() if key not in ("anyOf", "oneOf")}
            waiting.extend({"allOf": [rest, branch]} if rest else branch for branch in reversed(branches))

    def _resolved(self, schema: Any) -> Json:
        merged: Json = {}
        waiting = [schema]
        while waiting:
            one = waiting.pop()
            self.count()
            if not isinstance(one, Mapping):
                continue
            self.count(len(one) + len(properties_of(one)))
            parts = _list(one.get("allOf"))[:]
            if isinstance(reference := one.get("$ref"), str):
                parts.append(self._target(reference))
            waiting.extend(reversed(parts))
            for key, value in one.items():
                if key in ("$ref", "allOf"):
                    continue
                if key == "properties" and isinstance(value, Mapping):
                    value = {**properties_of(merged), **value}
                merged[key] = value
        return merged

    def _target(self, reference: str) -> Any:
        """Return the target of a reference within the document; other documents are never read."""
        if not reference.startswith("#"):
            return _EMPTY
        value = self._root
        for part in reference[1:].split("/")[1:]:
            self.count()
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping):
                value = value.get(name, _EMPTY)
            elif isinstance(value, list) and name.isdecimal() and int(name[:6]) < len(value):
                value = value[int(name[:6])]
            else:
                return _EMPTY
        return value

    def count(self, steps: int = 1) -> None:
        """Count steps that the schema causes. Raises SchemaTooLarge if there were too many."""
        self.steps += steps
        if self.steps > self._most:
            raise SchemaTooLarge


def types_of(schema: Json) -> frozenset[str]:
    """Return the types that a schema allows, judging by its keywords if it names none."""
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(one for one in named if isinstance(one, str))
    if "properties" in schema:
        return frozenset({"object"})
    if "items" in schema:
        return frozenset({"array"})
    return frozenset({"string", "number", "boolean", "array", "object"})


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the named properties of a schema for objects."""
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else _EMPTY


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


MAX_ERRORS = 100
"""Errors that are reported."""
_Check = Callable[[Any, Any, Any, Any], Iterator[jsonschema.ValidationError] | None]


def schema_errors(value: Any, schema: Json) -> list[tuple[list[str | int], str]]:
    """Return the places where a value breaks the schema, and how. Raises SchemaTooLarge after too many steps."""
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
"""It has only the document itself, and fetches no other."""
_BROKEN = (Unresolvable, jsonschema.exceptions.UnknownType, TypeError, ValueError, AttributeError, LookupError)
"""What the library raises for an invalid schema."""


class _CountedSteps:
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
    """Check a pattern in linear time; patterns that RE2 does not support are not checked."""
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
