"""Which pages are worth a look: links that share words with what is wanted."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from receiver.emulator.extraction.names import synonyms_of, words_in, words_of
from receiver.emulator.fetching.web_urls import host_of, registrable_domain, split_web_url, url_key
from receiver.emulator.research.table import CandidatePage

GIVEN = 1_000_000
"""The score of a page that the request names."""
FOUND = 1_000
"""The score of the first hit of a search; links come after all of them."""
_FOR_MISSING = 20
"""What a link counts more for each missing property that it may lead to."""
MAX_LINKS = 500
"""Links of one page that are looked at."""
_LINK = re.compile(r"(?<!!)\[([^\[\]]{1,200})\]\((https?://[^\s()<>]{1,2000})")
_SCHEMA_DEPTH, _SCHEMA_NAMES = 6, 200
_COMMON_TEXT = """a about all also an and any are as at be by can data each every extract fetch find for from get
give go has have how in information into is it its list me more my name of on one only or other our page return site
tell that the their them there these they this to url us use value was we web website were what when where which who
whose will with you your"""
_COMMON = frozenset(_COMMON_TEXT.split())
_LEADS = (
    ("phone telephone fax email mail address street city office location hours", "contact imprint about location"),
    ("telefon adresse anschrift anfahrt kontakt", "kontakt impressum ueber über"),
    ("téléphone adresse courriel", "contact mentions propos"),
    ("founded founding founder history year employee ceo company mission team", "about company history team"),
    ("gegründet gründer gründung mitarbeiter firma unternehmen", "unternehmen team geschichte impressum"),
    ("price cost plan fee subscription", "pricing price plan shop product"),
    ("preis kosten", "preise shop produkte produkt"),
    ("prix tarif", "tarif boutique produit"),
    ("product sku brand", "product shop catalog catalogue"),
    ("job salary vacancy position", "job career vacancy"),
    ("stelle gehalt", "karriere stelle job"),
    ("author article post published", "blog news article"),
    ("event date venue ticket", "event program programme schedule"),
    ("license version install requirement", "doc download install release"),
    ("return refund shipping delivery warranty", "faq shipping return term"),
)
"""Words of what is wanted, and words of links that often lead there."""


def wanted_words(prompt: str | None, names: Iterable[str]) -> frozenset[str]:
    """Return the words of a prompt and of names of properties, and words of links that often lead to them."""
    words = set(words_in((prompt or "")[:10_000]))
    for name in names:
        words.update(words_of(name))
        words.update(word for word in synonyms_of(name) if len(word) > 2)
    return _with_leads(words)


def words_of_properties(schema: Any, depth: int = 0) -> dict[str, frozenset[str]]:
    """Return the words that may lead to each property of a schema: of its name, its description, and of links."""
    if not isinstance(schema, dict) or depth > _SCHEMA_DEPTH:
        return {}
    found: dict[str, frozenset[str]] = {}
    properties = schema.get("properties")
    for name, inner in list((properties if isinstance(properties, dict) else {}).items())[:_SCHEMA_NAMES]:
        description = inner.get("description") if isinstance(inner, dict) else None
        found[name] = wanted_words(description if isinstance(description, str) else None, [name])
        found |= words_of_properties(inner, depth + 1)
    return dict(list((found | words_of_properties(schema.get("items"), depth + 1)).items())[:_SCHEMA_NAMES])


def _with_leads(words: set[str]) -> frozenset[str]:
    words = {word for word in words if len(word) > 1 and word not in _COMMON}
    for asked, leads in _LEADS:
        if not words.isdisjoint(asked.split()):
            words.update(leads.split())
    return frozenset(words)


def names_in_schema(schema: Any, depth: int = 0) -> list[str]:
    """Return the names of properties in a schema, some of them if there are many."""
    if not isinstance(schema, dict) or depth > _SCHEMA_DEPTH:
        return []
    names: list[str] = []
    properties = schema.get("properties")
    for name, inner in list((properties if isinstance(properties, dict) else {}).items())[:_SCHEMA_NAMES]:
        names.append(name)
        names += names_in_schema(inner, depth + 1)
    names += names_in_schema(schema.get("items"), depth + 1)
    return names[:_SCHEMA_NAMES]


def links_in(markdown: str, links: Sequence[str]) -> dict[str, str]:
    """Return the links of a page with their texts."""
    found = dict.fromkeys(links[:MAX_LINKS], "")
    for text, url in _LINK.findall(markdown[:1_000_000])[:MAX_LINKS]:
        found[url] = f"{found.get(url, '')} {text}".strip()[:500]
    return found


def score_of(url: str, text: str, words: frozenset[str]) -> int:
    """Return how many of the words stand in a link: 2 for each in its text, 1 for each in its address alone."""
    parts = urlsplit(url)
    in_text = words & set(words_in(text))
    in_path = words & set(words_in(unquote(f"{parts.path} {parts.query}")[:500]))
    return 2 * len(in_text) + len(in_path - in_text)


def candidates(
    page_url: str,
    links: dict[str, str],
    words: frozenset[str],
    *,
    missing: Mapping[str, frozenset[str]] | None = None,
    external: bool = False,
) -> list[CandidatePage]:
    """Return the links to pages of the same site, or of others, that share a word with what is wanted.

    `missing` has the words of properties that no page has had so far: a link with one of them counts more. The best
    links come first.
    """
    own = split_web_url(page_url)
    domain = "" if own is None else registrable_domain(host_of(own))
    chosen: list[CandidatePage] = []
    for url, text in links.items():
        parts = split_web_url(url)
        if parts is None or (registrable_domain(host_of(parts)) != domain) is not external:
            continue
        leads_to = tuple(name for name, own in (missing or {}).items() if score_of(url, text, own))
        if score := score_of(url, text, words) + _FOR_MISSING * len(leads_to):
            chosen.append(CandidatePage(url, url_key(url), min(score, FOUND // 2), leads_to))
    return sorted(chosen, key=lambda one: -one.score)


def given(urls: Iterable[str], score: int = GIVEN) -> list[CandidatePage]:
    """Return pages in their order, each a little better than the next one."""
    return [CandidatePage(url, url_key(url), score - number) for number, url in enumerate(urls)]
