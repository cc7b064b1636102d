"""Sentences that say who wrote a page and when, and how to reach somebody: `By Person One`, `Ask a@example.com`."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from receiver.service.emulator.extraction.dates import iso_date

MAX_LINES = 300
"""Lines that are looked at."""
MAX_LINE = 200
"""Characters of such a line."""
_NAME = r"([^\W\d_a-z][\w.'\u2019-]*(?:\s+[^\W\d_a-z][\w.'\u2019-]*){1,3})"
_BYLINE = re.compile(rf"(?:(?i:written by|by|von|par))\s+{_NAME}\s*(?:[|·•,\u2013\u2014-].*)?$")
_PUBLISHED = re.compile(
    r"(?i)\b(?:published|posted|veröffentlicht|erschienen|publié)e?\s*(?:on|am|le)?:?\s+(?P<rest>.{6,60})"
)
_MAIL = re.compile(r"(?<![\w.+@-])[\w.+-]{1,64}@(?!\dx\.)(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w@-])")
_UPDATED = re.compile(r"(?i)\b(?:updated|aktualisiert|mis à jour)\s*(?:on|am|le)?:?\s+(?P<rest>.{6,60})")


def phrases(lines: Iterable[str]) -> dict[str, str]:
    """Return the author and the dates that lines of a page name."""
    found: dict[str, str] = {}
    for line in islice(lines, MAX_LINES):
        if len(line) <= MAX_LINE:
            for name, value in _of_line(line):
                found.setdefault(name, value)
    return found


def mail_address(lines: Iterable[str]) -> str | None:
    """Return the e-mail address that lines of a page show. If they show several, none of them is *the* address."""
    shown = (line for line in lines if "@" in line)
    found: dict[str, str] = {}
    for told in (told for line in islice(shown, MAX_LINES) for told in _MAIL.findall(line)):
        found.setdefault(told.lower(), told)
    return next(iter(found.values())) if len(found) == 1 else None


def _of_line(line: str) -> Iterator[tuple[str, str]]:
    if byline := _BYLINE.search(line):
        starts = byline.start() == 0 or _PUBLISHED.search(line[: byline.start()])
        if starts:
            yield "author", byline[1]
    for name, pattern in (("published", _PUBLISHED), ("updated", _UPDATED)):
        if (told := pattern.search(line)) and (day := iso_date(told["rest"])):
            yield name, day
