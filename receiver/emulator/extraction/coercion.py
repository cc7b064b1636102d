"""Values of a page in the type that a schema asks for. Nothing is made up: what does not fit is missing."""

import itertools
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from receiver.emulator.extraction.names import FALSE_WORDS, TRUE_WORDS, iso_date

Json = dict[str, Any]


class MissingValue:
    """Stands for a value that was not found; null is a value."""

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
"""A lower-case m stands for metres or minutes, and so does one after a space."""
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_WEB = re.compile(r"https?://|[^\s]*[/?#]|[^\s/]+\.[a-z]\w*$", re.IGNORECASE)
_NAMES = ("name", "headline", "text", "@value", "value", "title", "url", "contentUrl", "@id")
_AMOUNTS = ("price", "value", "lowPrice", "amount", "ratingValue", "@value", "minValue")


def as_text(value: Any, schema: Json, base: str, day_first: bool | None = None) -> str | MissingValue:
    """Return a text: of an object its name, of several texts all of them."""
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
    """Return a text in the form that a schema names; MISSING if it has another."""
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
    """Return a number: the first of a text such as `from £1,299.00` or `1.299,00 €`.

    `comma` says that the language of the page writes 1.299 for a thousand and more.
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
    """Return the number with a point alone: the last of `.` and `,` is the point, unless it groups thousands."""
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
    """Return whether a value says yes or no; the addresses of availability in schema.org say it too."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else MISSING
    if isinstance(value, list):
        return as_flag(value[0]) if value else MISSING
    text = str(value).strip().rpartition("/")[2].lower()[:40]
    return True if text in TRUE_WORDS else False if text in FALSE_WORDS else MISSING


def as_choice(value: Any, choices: list[Any]) -> Any:
    """Return the allowed value that a value names, in any case and with any punctuation."""
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
