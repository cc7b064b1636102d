"""Fills a schema from what a page says of itself, by the names and types of properties. It invents nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jsonschema
import re2
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from receiver.emulator.extraction.coercion import MISSING, MissingValue, as_choice, as_flag, as_number, as_text
from receiver.emulator.extraction.evidence import Evidence, Record, values_for
from receiver.emulator.extraction.names import key_of, likeness, words_of
from receiver.emulator.extraction.schemas import (
    MAX_DEPTH,
    MAX_STEPS,
    Json,
    SchemaReader,
    SchemaTooLarge,
    properties_of,
    types_of,
)

MAX_LIST = 1_000
"""Members of a list in a result."""
MAX_MISSING = 100
"""Paths without a value that are remembered."""
MAX_CANDIDATES = 50
"""Values that are tried for one property."""
_ADDRESSES = ("uri", "url", "uri-reference")
_LINK_WORDS = frozenset({"url", "uri", "link", "href", "page", "address", "website", "site"})
_SPLIT_BY = (";", ",", "\n")


class SchemaFiller:
    """Fills one schema. `missing` has the paths of properties for which the page has no value."""

    def __init__(self, evidence: Evidence, reader: SchemaReader) -> None:
        self.missing: list[str] = []
        self._evidence = evidence
        self._reader = reader

    def fill(self, schema: Json) -> Any:
        """Return a value in the form of the schema; null where nothing was found."""
        for form in self._reader.alternatives(schema):
            found = self._page_value(form)
            if found is not MISSING:
                return found
        self.missing.append("the whole value")
        return None

    def _page_value(self, form: Json) -> Any:
        types = types_of(form)
        if "object" in types and (properties_of(form) or "array" not in types):
            return self._object(form, self._evidence.records, "", 0)
        if "array" in types:
            own = self._evidence.data if isinstance(self._evidence.data, list) else MISSING
            found = self._list(own, form, "", 0) if own is not MISSING else MISSING
            return found if found is not MISSING else self._rows(form, "", 0)
        return next((found for found in self._values(form, "title", self._evidence.records, "", 0)), MISSING)

    def _object(self, form: Json, records: Iterable[Record], path: str, depth: int) -> Any:
        """Return an object with every property of the schema; MISSING if the records have none of them."""
        if depth > MAX_DEPTH:
            return MISSING
        records = list(records)
        properties = properties_of(form)
        before = len(self.missing)
        result: Json = {}
        for name, schema in properties.items():
            self._reader.count()
            place = f"{path}.{name}" if path else name
            found = self._property(name, schema, records, place, depth + 1)
            if found is MISSING and len(self.missing) < MAX_MISSING:
                self.missing.append(place)
            result[name] = None if found is MISSING else found
        if properties and all(value is None for value in result.values()):
            del self.missing[before:]
            return MISSING
        return result if properties else self._open(records)

    def _open(self, records: list[Record]) -> Any:
        """Return what the best record has, for a schema that names no properties."""
        return next((dict(record.values) for record in records if record.values), MISSING)

    def _property(self, name: str, schema: Any, records: list[Record], path: str, depth: int) -> Any:
        forms = list(self._reader.alternatives(schema))
        whole_page = depth == 1 or records is self._evidence.records
        for form in forms:
            for found in self._values(form, name, records, path, depth):
                return found
            if whole_page and "array" in types_of(form) and (found := self._rows(form, name, depth)) is not MISSING:
                return found
            for found in self._values(form, name, records, path, depth, parts=True):
                return found
        if whole_page and (found := self._link(name, forms)) is not MISSING:
            return found
        for form in forms if whole_page else ():
            if properties_of(form) and (found := self._described(form, name, path, depth)) is not MISSING:
                return found
        return MISSING

    def _link(self, name: str, forms: list[Json]) -> Any:
        """Return where the link leads that is called by the words of a property for an address."""
        if not any(form.get("format") in _ADDRESSES for form in forms):
            return MISSING
        words = set(words_of(name)) - _LINK_WORDS
        fitting = (url for text, url in self._evidence.anchors if words and words <= set(words_of(text)))
        return next(fitting, MISSING)

    def _described(self, form: Json, name: str, path: str, depth: int) -> Any:
        """Return an object from the things of the type that a property is called by, else from the whole page."""
        typed = [record for record in self._evidence.records if key_of(name) in record.types]
        found = self._object(form, typed, path, depth) if typed else MISSING
        return found if found is not MISSING else self._object(form, self._evidence.records, path, depth)

    def _values(
        self, form: Json, name: str, records: list[Record], path: str, depth: int, *, parts: bool = False
    ) -> Iterator[Any]:
        """Yield the values for a name that the form takes. With `parts`, a list is also made of a single value."""
        lists_only = not parts and "array" in types_of(form) and "string" not in types_of(form)
        for tried, value in enumerate(values_for(name, records)):
            self._reader.count()
            if tried == MAX_CANDIDATES:
                return
            if lists_only and not isinstance(value, list):
                continue
            found = self._coerce(value, form, path, depth)
            if found is not MISSING:
                yield found

    def _coerce(self, value: Any, form: Json, path: str, depth: int) -> Any:
        """Return a value in the form of a schema without alternatives; MISSING if it does not fit."""
        if "const" in form:
            return as_choice(value, [form["const"]])
        if isinstance(choices := form.get("enum"), list):
            return as_choice(value, choices)
        types = types_of(form)
        if isinstance(value, Mapping) and "object" in types and (properties_of(form) or "string" not in types):
            return self._object(form, [Record(value)], path, depth)
        if isinstance(value, list) and "array" in types:
            return self._list(value, form, path, depth)
        return self._scalar(value, form, types, path, depth)

    def _scalar(self, value: Any, form: Json, types: frozenset[str], path: str, depth: int) -> Any:
        if isinstance(value, bool) and "boolean" in types:
            return value
        if not types.isdisjoint({"number", "integer"}) and ("string" not in types or not isinstance(value, str)):
            number = as_number(value, whole="number" not in types, comma=self._evidence.day_first is True)
            if number is not MISSING:
                return number
        if "boolean" in types and "string" not in types:
            return as_flag(value)
        if "string" in types:
            return as_text(value, form, self._evidence.url, self._evidence.day_first)
        return self._list(_members(value), form, path, depth) if "array" in types else MISSING

    def _list(self, values: Any, form: Json, path: str, depth: int) -> Any:
        """Return the members of a list that fit its items; MISSING if none does."""
        if depth > MAX_DEPTH or not isinstance(values, list):
            return MISSING
        items = form.get("items", {})
        before = len(self.missing)
        found = [
            self._member(value, items, f"{path}[{at}]", depth + 1) for at, value in enumerate(values[:MAX_LIST])
        ]
        kept = [one for one in found if one is not MISSING]
        if not kept:
            del self.missing[before:]
        return kept or MISSING

    def _member(self, value: Any, schema: Any, path: str, depth: int) -> Any:
        for form in self._reader.alternatives(schema):
            found = self._coerce(value, form, path, depth)
            if found is not MISSING:
                return found
        return MISSING

    def _rows(self, form: Json, name: str, depth: int) -> Any:
        """Return a list from the things or the table that fit its items best, or from a list of the page."""
        items = next(self._reader.alternatives(form.get("items", {})), {})
        wanted = list(properties_of(items))
        if not wanted:
            return self._simple_list(form, name, depth)
        best: tuple[int, list[Mapping[str, Any]]] = (0, [])
        for title, rows in self._evidence.rows():
            self._reader.count()
            columns = list(dict.fromkeys(key for row in rows[:3] for key in row))[:MAX_CANDIDATES]
            fit = sum(any(likeness(one, column) for column in columns) for one in wanted)
            score = 10 * fit + 5 * (likeness(name, title) > 0) if 2 * fit >= len(wanted) else 0
            best = max(best, (score, rows), key=lambda one: one[0])
        return self._list(list(best[1]), form, name, depth) if best[0] else MISSING

    def _simple_list(self, form: Json, name: str, depth: int) -> Any:
        for heading, entries in self._evidence.blocks.lists:
            if name and entries and likeness(name, heading):
                return self._list(entries, form, name, depth)
        for table in self._evidence.blocks.tables:
            for column, label in enumerate(table.header):
                if name and likeness(name, label):
                    return self._list([row[column] for row in table.rows if len(row) > column], form, name, depth)
        return MISSING


def _members(value: Any) -> list[Any] | MissingValue:
    """Return the members of a list that a page gives as one text."""
    if not isinstance(value, str):
        return [value]
    mark = next((one for one in _SPLIT_BY if one in value), None)
    return [part.strip() for part in value.split(mark) if part.strip()] if mark else [value]


# FOLDED: Whether a value fits a JSON Schema, in bounded time: hostile patterns and references do not run away.
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
