"""Which pages are worth a look: links that share words with what is wanted."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from receiver.service.emulator.extraction.names import synonyms_of, words_in, words_of
from receiver.service.emulator.fetching.url_keys import url_key
from receiver.service.emulator.fetching.web_urls import host_of, registrable_domain, split_web_url
from receiver.service.emulator.research.records import CandidatePage

GIVEN = 1_000_000
"""The score of a page that the request names."""
FOUND = 1_000
"""The score of the first hit of a search; links come after all of them."""
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
    page_url: str, links: dict[str, str], words: frozenset[str], *, external: bool = False
) -> list[CandidatePage]:
    """Return the links to pages of the same site, or of others, that share a word with what is wanted.

    The best ones come first.
    """
    own = split_web_url(page_url)
    domain = "" if own is None else registrable_domain(host_of(own))
    chosen: list[CandidatePage] = []
    for url, text in links.items():
        parts = split_web_url(url)
        if parts is None or (registrable_domain(host_of(parts)) != domain) is not external:
            continue
        if score := score_of(url, text, words):
            chosen.append(CandidatePage(url, url_key(url), min(score, FOUND // 2)))
    return sorted(chosen, key=lambda one: -one.score)


def given(urls: Iterable[str], score: int = GIVEN) -> list[CandidatePage]:
    """Return pages in their order, each a little better than the next one."""
    return [CandidatePage(url, url_key(url), score - number) for number, url in enumerate(urls)]
