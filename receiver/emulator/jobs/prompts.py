"""Options of a crawl from a prompt in plain words, by rules: the service asks a language model."""

import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_SECTIONS = {
    "about": "about",
    "api": "api",
    "article": "articles",
    "articles": "articles",
    "blog": "blog",
    "blogs": "blog",
    "careers": "careers",
    "case studies": "case-studies",
    "categories": "categories",
    "category": "category",
    "changelog": "changelog",
    "doc": "docs",
    "docs": "docs",
    "documentation": "docs",
    "events": "events",
    "examples": "examples",
    "faq": "faq",
    "features": "features",
    "forum": "forum",
    "guide": "guides",
    "guides": "guides",
    "help": "help",
    "jobs": "jobs",
    "legal": "legal",
    "news": "news",
    "press": "press",
    "pricing": "pricing",
    "privacy": "privacy",
    "product": "products",
    "products": "products",
    "recipes": "recipes",
    "reference": "reference",
    "releases": "releases",
    "resources": "resources",
    "shop": "shop",
    "store": "store",
    "support": "support",
    "terms": "terms",
    "tutorial": "tutorials",
    "tutorials": "tutorials",
    "wiki": "wiki",
}
"""What people call the parts of a site, and the first segment of their paths."""
_SECTION = re.compile(
    r"(?P<path>(?<![\w/:.])/[\w.~%-]+(?:/[\w.~%-]+)*)|\b(?P<word>"
    + "|".join(sorted(map(re.escape, _SECTIONS), key=len, reverse=True))
    + r")\b"
)
_NOT = r"(?:do not|don't|dont|never|without|no|not|except|excluding|exclude|skip|ignore|ignoring|avoid|but not)"
_EXCLUDING = re.compile(rf"\b{_NOT}\b")
_INCLUDING = re.compile(r"\b(?:only|but|just|include|including|extract|get|find|crawl|scrape|all)\b|[.;\n]")
_LIMIT = re.compile(
    r"\b(?:limit(?:ed)?(?: (?:of|to))?|at most|up to|max(?:imum)?(?: of)?|first|only|no more than) (\d{1,6})\b"
    r"|\b(\d{1,6}) pages?\b"
)
_DEPTH = re.compile(r"\bdepth(?: of)? (\d{1,3})\b|\b(\d{1,3}) (?:levels?|links?|clicks?)(?: deep| away)?\b")
_FLAGS = {
    "allowSubdomains": re.compile(r"\bsub-?domains?\b"),
    "allowExternalLinks": re.compile(r"\bexternal (?:links?|sites?|pages?)\b|\bother (?:sites?|domains?)\b"),
    "crawlEntireDomain": re.compile(r"\b(?:entire|whole|full|complete) (?:site|website|domain)\b"),
    "ignoreQueryParameters": re.compile(r"\bquery (?:parameters?|strings?)\b"),
}
_BEFORE = 24
"""How many characters before a word can deny it."""
_MOST = 10_000


def options_of_prompt(prompt: str) -> Json:
    """Return the options of a crawl that a prompt names, under their wire names; what it does not name is absent.

    It knows the usual parts of a site, paths such as `/recipes`, how many pages and how deep, subdomains, other
    sites, the whole site, the sitemap; and what is to be left out.
    """
    text = " ".join(prompt[:_MOST].lower().split(" "))
    options: Json = {}
    included, excluded = _paths(text)
    if included:
        options["includePaths"] = included
    if excluded:
        options["excludePaths"] = excluded
    if (limit := _number(_LIMIT, text)) is not None:
        options["limit"] = max(1, limit)
    if (depth := _number(_DEPTH, text)) is not None:
        options["maxDiscoveryDepth"] = depth
    options.update(_flags(text))
    if (sitemap := _sitemap(text)) is not None:
        options["sitemap"] = sitemap
    return options


def _paths(text: str) -> tuple[list[str], list[str]]:
    included: dict[str, None] = {}
    excluded: dict[str, None] = {}
    for clause, is_excluding in _clauses(text):
        chosen = excluded if is_excluding else included
        for found in _SECTION.finditer(clause):
            path = found["path"] or _SECTIONS[found["word"]]
            chosen[f"{re.escape(path.strip('/'))}/.*".replace("\\-", "-")] = None
    return [path for path in included if path not in excluded], list(excluded)


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, and whether what each names is to be left out."""
    place, is_excluding = 0, False
    while True:
        turn = (_INCLUDING if is_excluding else _EXCLUDING).search(text, place)
        yield text[place : turn.start() if turn else len(text)], is_excluding
        if turn is None:
            return
        place, is_excluding = turn.end(), not is_excluding


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else int(next(group for group in found.groups() if group is not None))


def _flags(text: str) -> Json:
    flags: Json = {}
    for name, pattern in _FLAGS.items():
        if (found := pattern.search(text)) is not None:
            denied = _is_denied(text, found.start())
            flags[name] = denied if name.startswith("ignore") else not denied
    return {name: value for name, value in flags.items() if value or not name.startswith("ignore")}


def _sitemap(text: str) -> str | None:
    found = re.search(r"\bsitemaps?\b", text)
    if found is None:
        return None
    if _is_denied(text, found.start()):
        return "skip"
    return "only" if re.search(r"\bonly\b[^.]{0,40}\bsitemaps?\b|\bsitemaps? only\b", text) else None


def _is_denied(text: str, place: int) -> bool:
    return _EXCLUDING.search(text[max(0, place - _BEFORE) : place]) is not None
