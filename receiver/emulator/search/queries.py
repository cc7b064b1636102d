"""Queries: their words, phrases and operators, as far as the service documents these.

Pages and queries have the same words, which `indexed` separates.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import SplitResult, urlsplit

from receiver.emulator.fetching.web_urls import host_of
from receiver.emulator.scraping.answers import STOP_WORDS

BREAK = "\u200b"
"""Follows each character of a script without spaces: it ends a word for the index, and is invisible to readers."""
_SPACELESS = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])"
)
_BROKEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u200b-\u200f\u2060\ufeff]")
_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_MONTHS = 24
EVERY = "every"
"""The mark that all pages have."""


def indexed(text: str) -> str:
    """Return a text with its words separated, also those of Chinese, Japanese, Korean and Thai."""
    return _SPACELESS.sub(rf"\1{BREAK}", unicodedata.normalize("NFKC", _BROKEN.sub("", text)))


def shown(text: str) -> str:
    """Return an indexed text for readers."""
    return text.replace(BREAK, "")


def folded(text: str) -> str:
    """Return a text for comparisons: without case, accents and breaks."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", shown(text).casefold()))


def words_in(text: str) -> list[str]:
    """Return the words of a text, folded."""
    return _WORD.findall(folded(text))


def words_of_url(parts: SplitResult) -> str:
    """Return the words in an address: `docs acme test guide install`."""
    text = f"{host_of(parts).removeprefix('www.')} {parts.path} {parts.query}"
    return " ".join(_WORD.findall(text))[:500]


def mark(kind: str, value: str) -> str:
    """Return the word in the index for a property of pages, such as their host."""
    return "m" + hashlib.blake2b(f"{kind}:{value}".encode("utf-8", "replace"), digest_size=9).hexdigest() + "q"


def host_names(host: str) -> Iterator[str]:
    """Yield a host and the domains above it: `docs.acme.test`, `acme.test`, `test`."""
    labels = host.removeprefix("www.").split(".")
    return (".".join(labels[at:]) for at in range(min(len(labels), 10)))


def month_of(moment: datetime) -> str:
    """Return the month of a moment, for a mark."""
    return f"{moment:%Y-%m}"


def months_between(first: datetime, last: datetime) -> list[str] | None:
    """Return the months of a period; None if there are too many."""
    start, end = first.year * 12 + first.month - 1, last.year * 12 + last.month - 1
    if end - start >= _MONTHS:
        return None
    return [f"{month // 12:04}-{month % 12 + 1:02}" for month in range(start, end + 1)]


def any_of(words: Iterable[str]) -> str:
    """Return the part of a query for one of some words."""
    return "(" + " OR ".join(quoted(word) for word in words) + ")"


def quoted(text: str) -> str:
    """Return a text as a phrase of a query."""
    return '"' + indexed(text).replace('"', '""') + '"'


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
    """With at least one letter or digit."""
    column: str | None = None
    """The only part of a page where it counts: `title`, `place` (the URL) or `body`; None for all."""
    is_exact: bool = False
    """In quotes: its words are next to each other, as they are written."""


@dataclass(frozen=True, slots=True)
class SitePart:
    """A host with everything below it, and the beginning of a path."""

    host: str
    """Without `www.`."""
    path: str = ""
    """Empty for the whole host."""


@dataclass(slots=True)
class SearchQuery:
    """A query with its operators."""

    groups: list[tuple[SearchTerm, ...]] = field(default_factory=list)
    """A page has a term of each group."""
    excluded: list[SearchTerm] = field(default_factory=list)
    """A page has no term of these."""
    sites: list[SitePart] = field(default_factory=list)
    """A page is of one of these; empty for every host."""
    other_sites: list[SitePart] = field(default_factory=list)
    file_types: list[str] = field(default_factory=list)
    """A page is a file of one of these types, such as `pdf`."""
    other_file_types: list[str] = field(default_factory=list)
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
        """The groups of plain words, which a page may lack if no page has them all."""
        return [group for group in self.groups if not any(term.is_exact or term.column for term in group)]


def read_query(text: str) -> SearchQuery:
    """Return the query of a text. Every text is a query; what exceeds the limits is left out."""
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
    """Return the target of `site:`: a host, a domain, a wildcard of one, or the beginning of an address."""
    address = text.partition("://")[2] or text
    host, slash, path = address.partition("/")
    host = host.rpartition("@")[2].partition(":")[0].removeprefix("*.").removeprefix("www.").strip(".").lower()
    return SitePart(host[:253], f"{slash}{path}".rstrip("/")) if host else None


def _drop_stop_words(query: SearchQuery) -> None:
    """Leave out words such as `the`, unless the query has no others."""
    kept = [
        group
        for group in query.groups
        if len(group) > 1
        or group[0].is_exact
        or group[0].column
        or not STOP_WORDS.issuperset(words_in(group[0].text))
    ]
    query.groups = kept or query.groups


_HOSTS_IN = {
    "github": "github.com",
    "research": """acm.org arxiv.org biorxiv.org ieee.org jstor.org nature.com ncbi.nlm.nih.gov plos.org
        pubmed.gov researchgate.net scholar.google.com science.org sciencedirect.com semanticscholar.org
        springer.com wiley.com""",
    "developer": """developer.mozilla.org docs.python.org docs.rs github.com gitlab.com npmjs.com pkg.go.dev
        pypi.org readthedocs.io stackoverflow.com""",
    "gov": "gov gov.au gov.uk europa.eu mil",
}
_HOSTS = {name: tuple(hosts.split()) for name, hosts in _HOSTS_IN.items()}
"""The hosts of categories, with everything below them. `pdf` is a kind of files."""


def kinds_of(categories: Iterable[str]) -> list[SearchQuery]:
    """Return the sites and file types of categories."""
    return [
        SearchQuery(file_types=["pdf"])
        if name == "pdf"
        else SearchQuery(sites=[SitePart(host) for host in _HOSTS[name]])
        for name in categories
    ]


def category_of(url: str, categories: Sequence[str]) -> str | None:
    """Return the first of some categories that a page belongs to; None without any."""
    parts = urlsplit(url)
    names = set(host_names((parts.hostname or "").lower()))
    for name in categories:
        if name == "pdf" and parts.path.lower().endswith(".pdf"):
            return name
        if names.intersection(_HOSTS.get(name, ())):
            return name
    return "pdf" if "pdf" in categories else None
