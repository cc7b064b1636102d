"""JSON Schemas as the rules read them: references resolved, alternatives listed, and all of it bounded."""

from collections.abc import Iterator, Mapping
from typing import Any

Json = dict[str, Any]

MAX_STEPS = 20_000
"""Schemas, nested ones included, that one extraction or one validation visits."""
MAX_DEPTH = 24
"""Levels of a result."""
_EMPTY: Json = {}


class SchemaTooLarge(ValueError):
    """The schema takes too many steps: it is huge, or it refers to itself."""


class SchemaReader:
    """Reads the parts of one schema, and counts them. SchemaTooLarge ends what would not end."""

    def __init__(self, root: Any, most: int = MAX_STEPS) -> None:
        self._root = root
        self._most = most
        self.steps = 0
        """The parts that were read."""

    def alternatives(self, schema: Any) -> Iterator[Json]:
        """Yield the forms that a value may have: the schema itself, or each branch of its anyOf and oneOf.

        References are followed, and the parts of an allOf are laid over each other.
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
        """Return what a reference inside of the document names; other documents are never read."""
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
        """Count work that the schema causes. SchemaTooLarge says that there was too much."""
        self.steps += steps
        if self.steps > self._most:
            raise SchemaTooLarge


def types_of(schema: Json) -> frozenset[str]:
    """Return the types that a schema allows; what its keywords say if it names none."""
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
