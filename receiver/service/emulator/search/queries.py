"""What a query asks for: words, phrases, and the operators that the service documents."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from receiver.service.emulator.scraping.passages import STOP_WORDS
from receiver.service.emulator.search.words import words_in

LONGEST = 2_000
MOST_TERMS = 32
_TOKEN = re.compile(r'(-|\+)?(?:([a-zA-Z]{2,12}):)?(?:"([^"]*)(?:"|\Z)|([^\s"]+))')
_SIZE = re.compile(r"(\d{1,5})[x*](\d{1,5})", re.IGNORECASE)
_COLUMNS = {
    "intitle": "title",
    "allintitle": "title",
    "inurl": "place",
    "allinurl": "place",
    "intext": "body",
    "allintext": "body",
}
_OPERATORS = frozenset({*_COLUMNS, "site", "filetype", "ext", "imagesize", "larger", "related"})


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """One word or phrase."""

    text: str
    """It has at least one letter or digit."""
    column: str | None = None
    """The only part of a page in which it counts: `title`, `place` (the URL) or `body`; None is any."""
    is_exact: bool = False
    """Whether it stood in quotes: its words stand next to each other, as they are written."""


@dataclass(frozen=True, slots=True)
class SitePart:
    """A host with all below it, and the beginning of the path there."""

    host: str
    """The host, without `www.`."""
    path: str = ""
    """Empty for the whole host."""


@dataclass(slots=True)
class SearchQuery:
    """A query that was read."""

    groups: list[tuple[SearchTerm, ...]] = field(default_factory=list)
    """A page has a term of each group."""
    excluded: list[SearchTerm] = field(default_factory=list)
    """A page has none of these."""
    sites: list[SitePart] = field(default_factory=list)
    """A page is of one of these; without any, of every host."""
    other_sites: list[SitePart] = field(default_factory=list)
    """A page is of none of these."""
    file_types: list[str] = field(default_factory=list)
    """A page is a file of one of these types, such as `pdf`."""
    other_file_types: list[str] = field(default_factory=list)
    """A page is a file of none of these types."""
    image_size: tuple[int, int] | None = None
    """Width and height of images."""
    larger_than: tuple[int, int] | None = None
    """Images are larger than this width and height."""
    ignored: list[str] = field(default_factory=list)
    """Operators without effect."""

    @property
    def words(self) -> list[str]:
        """The words of all terms, folded, each once."""
        return list(dict.fromkeys(word for group in self.groups for term in group for word in words_in(term.text)))

    @property
    def optional(self) -> list[tuple[SearchTerm, ...]]:
        """The groups that a page may lack if no page has them all: plain words."""
        return [group for group in self.groups if not any(term.is_exact or term.column for term in group)]


def read_query(text: str) -> SearchQuery:
    """Return what a query asks for. Every text is a query; what is beyond the limits is left out."""
    query = SearchQuery()
    column: str | None = None
    joins = False
    for sign, operator, phrase, word in _tokens(text):
        if not operator and not sign and word in ("OR", "|"):
            joins = bool(query.groups)
            continue
        if word in ("AND", "&") and not operator:
            continue
        value = phrase or word.strip("()[]{},;")
        if operator.startswith("all"):
            column = _COLUMNS[operator]
        if operator in _OPERATORS and operator not in _COLUMNS:
            _apply(query, operator, value, is_excluded=sign == "-")
        elif words_in(value):
            term = SearchTerm(value, _COLUMNS.get(operator, column), bool(phrase))
            _add(query, term, is_excluded=sign == "-", joins=joins)
        joins = False
    _drop_stop_words(query)
    return query


def _tokens(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield sign, operator, phrase and word of each part; a colon in other words is a part of the word."""
    for count, found in enumerate(_TOKEN.finditer(text[:LONGEST])):
        if count >= 4 * MOST_TERMS:
            return
        sign, operator, phrase, word = (part or "" for part in found.groups())
        if word.endswith(":") and word[:-1].lower() in _OPERATORS:  # a space follows the colon
            operator, word = word[:-1], ""
        if operator and operator.lower() not in _OPERATORS:
            operator, phrase, word = "", "", f"{operator}:{phrase or word}"
        yield sign, operator.lower(), phrase, word


def _add(query: SearchQuery, term: SearchTerm, *, is_excluded: bool, joins: bool) -> None:
    if sum(map(len, query.groups)) + len(query.excluded) >= MOST_TERMS:
        return
    if is_excluded:
        query.excluded.append(term)
    elif joins:
        query.groups[-1] += (term,)
    elif (term,) not in query.groups:
        query.groups.append((term,))


def _apply(query: SearchQuery, operator: str, value: str, *, is_excluded: bool) -> None:
    if operator == "site":
        if (part := site_part(value)) is not None:
            (query.other_sites if is_excluded else query.sites).append(part)
    elif operator in ("filetype", "ext"):
        (query.other_file_types if is_excluded else query.file_types).append(value.lower().lstrip("."))
    elif (size := _SIZE.fullmatch(value)) and operator == "imagesize":
        query.image_size = int(size[1]), int(size[2])
    elif size and operator == "larger":
        query.larger_than = int(size[1]), int(size[2])
    else:
        query.ignored.append(f"{operator}:")


def site_part(text: str) -> SitePart | None:
    """Return what `site:` names: a host, a domain, a wildcard of one, or the beginning of an address."""
    address = text.partition("://")[2] or text
    host, slash, path = address.partition("/")
    host = host.rpartition("@")[2].partition(":")[0].removeprefix("*.").removeprefix("www.").strip(".").lower()
    return SitePart(host[:253], f"{slash}{path}".rstrip("/")) if host else None


def _drop_stop_words(query: SearchQuery) -> None:
    """Leave out words such as `the`, unless the query has no others."""
    kept = [
        group
        for group in query.groups
        if len(group) > 1 or group[0].is_exact or group[0].column or not _is_stop_word(group[0].text)
    ]
    query.groups = kept or query.groups


def _is_stop_word(text: str) -> bool:
    return all(word in STOP_WORDS for word in words_in(text))
