"""Fills a schema with the values of a page, by the names and types of properties.

Nothing is invented: a value that does not fit its type is missing.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from receiver.emulator.extraction.evidence import Evidence, Record, values_for
from receiver.emulator.extraction.names import FALSE_WORDS, TRUE_WORDS, iso_date, key_of, likeness, words_of
from receiver.emulator.extraction.schemas import MAX_DEPTH, Json, SchemaReader, properties_of, types_of

MAX_LIST = 1_000
"""Members of a list in a result."""
MAX_MISSING = 100
"""Paths without a value that are kept."""
MAX_CANDIDATES = 50
"""Values that are tried for one property."""
_ADDRESSES = ("uri", "url", "uri-reference")
_LINK_WORDS = frozenset({"url", "uri", "link", "href", "page", "address", "website", "site"})
_SPLIT_BY = (";", ",", "\n")


class MissingValue:
    """The value that was not found; null is a value."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING = MissingValue()

MAX_TEXT = 20_000
"""Characters of a text that a result keeps."""
MAX_CHOICES = 2_000
"""Values of an enum that are compared."""
_NUMBER = re.compile(r"[-+\u2212]?\d[\d\s.,'\u00a0\u202f\u2019]*(?:[eE][-+]?\d{1,3}(?!\w))?")
_SCALE = {"k": 1_000, "M": 1_000_000, "mio": 1_000_000, "million": 1_000_000, "bn": 10**9, "billion": 10**9}
_SCALED = re.compile(r"([kM])\b|\s?((?i:mio|million|bn|billion))\b")
"""A lower-case m means metres or minutes, as does one after a space."""
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_WEB = re.compile(r"https?://|[^\s]*[/?#]|[^\s/]+\.[a-z]\w*$", re.IGNORECASE)
_NAMES = ("name", "headline", "text", "@value", "value", "title", "url", "contentUrl", "@id")
_AMOUNTS = ("price", "value", "lowPrice", "amount", "ratingValue", "@value", "minValue")


def as_text(value: Any, schema: Json, base: str, day_first: bool | None = None) -> str | MissingValue:
    """Return a text: the name of an object, or several texts joined."""
    match value:
        case str():
            text = value.strip()[:MAX_TEXT]
        case bool():
            text = "true" if value else "false"
        case int() | float():
            text = str(value)
        case list():
            parts = [as_text(one, {}, base) for one in itertools.islice(value, MAX_CHOICES)]
            text = ", ".join(part for part in parts if isinstance(part, str))[:MAX_TEXT]
        case Mapping():
            return next((as_text(value[key], schema, base, day_first) for key in _NAMES if value.get(key)), MISSING)
        case _:
            return MISSING
    return _formatted(text, schema.get("format"), base, day_first) if text else MISSING


def _formatted(text: str, form: object, base: str, day_first: bool | None) -> str | MissingValue:
    """Return a text in the format of a schema; MISSING if it has another."""
    if form == "date":
        return iso_date(text, day_first=day_first) or MISSING
    if form == "date-time":
        return text if _DATE_TIME.match(text) else MISSING
    if form in ("uri", "url", "uri-reference") and base:
        return _absolute(base, text) if _WEB.match(text) else MISSING
    return text


def _absolute(base: str, address: str) -> str | MissingValue:
    try:
        return urljoin(base, address) if address and " " not in address else MISSING
    except ValueError:
        return MISSING


def as_number(value: Any, *, whole: bool, comma: bool = False) -> int | float | MissingValue:
    """Return a number, such as the first in `from £1,299.00` or `1.299,00 €`.

    With `comma`, the language of the page writes 1.299 for more than a thousand.
    """
    match value:
        case bool():
            return MISSING
        case int() | float():
            number = value
        case str():
            read = _number_in(value[:MAX_TEXT], comma)
            if read is None:
                return MISSING
            number = read
        case Mapping():
            inner = (
                as_number(value[key], whole=whole, comma=comma) for key in _AMOUNTS if value.get(key) is not None
            )
            return next(inner, MISSING)
        case [first, *_]:
            return as_number(first, whole=whole, comma=comma)
        case _:
            return MISSING
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**53:
        number = int(number)
    return number if not whole or isinstance(number, int) else MISSING


def _number_in(text: str, comma: bool) -> int | float | None:
    found = _NUMBER.search(text)
    if found is None or len(found[0]) > 40:
        return None
    digits = re.sub(r"[\s'\u00a0\u202f\u2019]", "", found[0]).rstrip(".,").replace("\u2212", "-")
    try:
        number = float(_plain(digits, comma))
    except ValueError:
        return None
    scaled = _SCALED.match(text, found.end())
    return number * _SCALE[scaled[1] or scaled[2].lower()] if scaled else number


def _plain(digits: str, comma_language: bool) -> str:
    """Return the number with only a point: the last of `.` and `,` is the point unless it groups thousands."""
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and point >= 0:
        return digits.replace("." if comma > point else ",", "").replace(",", ".")
    if comma < 0 and point < 0:
        return digits
    mark = "," if comma >= 0 else "."
    groups = digits.split(mark)
    grouped = all(len(part) == 3 for part in groups[1:]) and len(groups[0].lstrip("+-")) <= 3
    if (
        len(groups) > 2
        or (grouped and mark == "." and comma_language)
        or (grouped and mark == "," and not comma_language)
    ):
        return "".join(groups) if grouped else digits
    return ".".join(groups)


def as_flag(value: Any) -> bool | MissingValue:
    """Return whether a value says yes or no, as the addresses of availability in schema.org also do."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else MISSING
    if isinstance(value, list):
        return as_flag(value[0]) if value else MISSING
    text = str(value).strip().rpartition("/")[2].lower()[:40]
    return True if text in TRUE_WORDS else False if text in FALSE_WORDS else MISSING


def as_choice(value: Any, choices: list[Any]) -> Any:
    """Return the allowed value that equals a value, whatever its case and punctuation."""
    if isinstance(value, list):
        found = (as_choice(one, choices) for one in value[:10])
        return next((one for one in found if one is not MISSING), MISSING)
    folded = _folded(value)
    return next((one for one in choices[:MAX_CHOICES] if folded and _folded(one) == folded), MISSING)


def _folded(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("name")
    if value is None or isinstance(value, list | dict):
        return ""
    text = str(value)[:MAX_TEXT].rpartition("/")[2] if str(value).startswith("http") else str(value)[:MAX_TEXT]
    return "".join(character for character in text.casefold() if character.isalnum())


class SchemaFiller:
    """Fills one schema. `missing` has the paths of properties without a value on the page."""

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
        """Return an object with every property of the schema; MISSING if the records have no value."""
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
        if properties:
            return result
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
        """Return the target of a link whose text has the words of a property for an address."""
        if not any(form.get("format") in _ADDRESSES for form in forms):
            return MISSING
        words = set(words_of(name)) - _LINK_WORDS
        fitting = (url for text, url in self._evidence.anchors if words and words <= set(words_of(text)))
        return next(fitting, MISSING)

    def _described(self, form: Json, name: str, path: str, depth: int) -> Any:
        """Return an object from the things whose type a property names, or else from the whole page."""
        typed = [record for record in self._evidence.records if key_of(name) in record.types]
        found = self._object(form, typed, path, depth) if typed else MISSING
        return found if found is not MISSING else self._object(form, self._evidence.records, path, depth)

    def _values(
        self, form: Json, name: str, records: list[Record], path: str, depth: int, *, parts: bool = False
    ) -> Iterator[Any]:
        """Yield the values for a name that fit the form. With `parts`, a single value may become a list."""
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
        """Return a list from the things or the table that fit its items best, or else from a list of the page."""
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
    """Return the members of a list that the page has as one text."""
    if not isinstance(value, str):
        return [value]
    mark = next((one for one in _SPLIT_BY if one in value), None)
    return [part.strip() for part in value.split(mark) if part.strip()] if mark else [value]
