"""Dates as people write them, in English, German and French."""

import re
from datetime import date

from receiver.service.emulator.extraction.vocabulary import MONTHS

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?=\D|$)")
_WORDS = re.compile(r"(?<!\d)(\d{1,2})(?:st|nd|rd|th|er|\.)?\s+(?:of\s+)?([^\W\d_]{3,9})\.?,?\s+(\d{4})(?!\d)")
_MONTH_FIRST = re.compile(r"([^\W\d_]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})(?!\d)")
_POINTS = re.compile(r"(?<!\d)(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})(?!\d)")
_SLASHES = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})/(\d{4})(?!\d)")
MAX_TEXT = 200
"""Characters of a text in which a date is looked for."""


def iso_date(text: str, *, day_first: bool | None = None) -> str | None:
    """Return the date in a text as ISO 8601; None if it has none, or if day and month could be swapped.

    `day_first` says how the language of the page writes dates with slashes; None that it is not known.
    """
    text = text[:MAX_TEXT]
    if found := _ISO.search(text):
        return _date(int(found[1]), int(found[2]), int(found[3]))
    if (found := _WORDS.search(text)) and (month := MONTHS.get(found[2].lower())):
        return _date(int(found[3]), month, int(found[1]))
    if (found := _MONTH_FIRST.search(text)) and (month := MONTHS.get(found[1].lower())):
        return _date(int(found[3]), month, int(found[2]))
    if found := _POINTS.search(text):
        return _date(int(found[3]), int(found[2]), int(found[1]))
    if found := _SLASHES.search(text):
        return _with_slashes(int(found[1]), int(found[2]), int(found[3]), day_first)
    return None


def _with_slashes(first: int, second: int, year: int, day_first: bool | None) -> str | None:
    if first > 12 or first == second:
        return _date(year, second, first)
    if second > 12:
        return _date(year, first, second)
    if day_first is None:
        return None
    return _date(year, second, first) if day_first else _date(year, first, second)


def _date(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None
