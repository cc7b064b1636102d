"""What a page says of itself: title, description, language, its `meta` elements, and what a search index needs."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from receiver.emulator.content.urls import Resolver, largest_source

_NAMES = """
description=description keywords=keywords robots=robots og:title=ogTitle og:description=ogDescription
og:url=ogUrl og:image=ogImage og:audio=ogAudio og:determiner=ogDeterminer og:locale=ogLocale
og:site_name=ogSiteName og:video=ogVideo article:section=articleSection article:tag=articleTag
article:published_time=publishedTime article:modified_time=modifiedTime dcterms.created=dcTermsCreated
dc.date.created=dcDateCreated dc.date=dcDate dcterms.type=dcTermsType dc.type=dcType
dcterms.audience=dcTermsAudience dcterms.subject=dcTermsSubject dc.subject=dcSubject
dc.description=dcDescription dcterms.keywords=dcTermsKeywords
"""
_NAMED = dict(pair.split("=") for pair in _NAMES.split())
"""The service's names by those of `meta` elements."""
_LOCALES = "og:locale:alternate"
_OF_SCRAPES = """scrapeId sourceURL url statusCode contentType error indexId timezone proxyUsed cacheState cachedAt
numPages totalPages creditsUsed postprocessorsUsed concurrencyLimited concurrencyQueueDurationMs"""
OWN_METADATA = frozenset(_OF_SCRAPES.split())
"""Names that the service fills in itself, some with other values than texts. A page cannot set them."""
_NOT_TAGS = OWN_METADATA | {"title", "favicon", "ogLocaleAlternate"}


def metadata_of(tree: LexborHTMLParser, resolver: Resolver) -> dict[str, Any]:
    """Return the metadata of a page, under the service's names and under its own."""
    tags = _meta_tags(tree)
    first = {name.lower(): values[0] for name, values in reversed(tags.items())}
    found: dict[str, Any] = {}
    head_title = tree.head.css_first("title") if tree.head is not None else None
    title = head_title.text().strip() if head_title is not None else ""
    if title := title or first.get("og:title") or first.get("twitter:title") or "":
        found["title"] = title
    root = tree.root.attributes if tree.root is not None else {}
    if language := (root.get("lang") or "").strip():
        found["language"] = language
    if favicon := _favicon(tree, resolver):
        found["favicon"] = favicon
    found.update({ours: first[name] for name, ours in _NAMED.items() if first.get(name)})
    locales = [value for name, values in tags.items() if name.lower() == _LOCALES for value in values]
    if locales:
        found["ogLocaleAlternate"] = locales
    for name, values in tags.items():
        if name not in _NOT_TAGS:
            joined = ", ".join(values) if name == "description" else values
            found[name] = values[0] if len(values) == 1 else joined
    return found


def _meta_tags(tree: LexborHTMLParser) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for node in tree.css("meta[content]"):
        attributes = node.attributes
        name = attributes.get("name") or attributes.get("property") or attributes.get("itemprop")
        content = attributes.get("content")
        if name and content:
            tags.setdefault(name, []).append(content)
    return tags


def _favicon(tree: LexborHTMLParser, resolver: Resolver) -> str:
    for node in tree.css("link[rel][href]"):
        if "icon" in (node.attributes.get("rel") or "").lower().split():
            return resolver.resolve(node.attributes.get("href") or "")
    return ""


MOST_IMAGES = 100
MOST_HEADINGS = 200
_LONGEST = 500
_MOST_SCRIPTS = 10
_LONGEST_SCRIPT = 200_000
_MOST_ITEMS = 200
_SMALLEST = 2
"""Pixels: images that are not larger count visitors."""
_ARTICLES = frozenset(
    {"article", "newsarticle", "blogposting", "reportagenewsarticle", "techarticle", "liveblogposting", "report"}
)
_PUBLISHED = ("publishedTime", "datePublished", "dcTermsCreated", "dcDateCreated", "dcDate", "date", "pubdate")
_MODIFIED = ("modifiedTime", "dateModified", "last-modified")
_TIMES = "article time[datetime], time[itemprop=datePublished], time[pubdate], .published time[datetime]"

Json = dict[str, Any]


def outline_of(tree: LexborHTMLParser, resolver: Resolver, metadata: Mapping[str, Any]) -> Json:
    """Return what a search index needs of a page beside its text, as JSON. The tree is not changed."""
    items = list(_structured(tree))
    is_one = len(tree.css("article")) == 1  # a list of articles is not an article
    times = (node.attributes.get("datetime") or "" for node in tree.css(_TIMES)[:_MOST_SCRIPTS])
    published = _first_date(_texts(metadata, items, _PUBLISHED))
    published = published or (_first_date(times) if is_one else None)
    modified = _first_date(_texts(metadata, items, _MODIFIED))
    return {
        "headings": [text for node in tree.css("h1, h2, h3, h4")[:MOST_HEADINGS] if (text := _words(node))],
        "images": list(_images(tree, resolver)),
        "published": published,
        "modified": modified,
        "isArticle": published is not None and (is_one or _is_article(metadata, items)),
        "picture": resolver.resolve(str(_first(metadata.get("ogImage") or metadata.get("twitter:image") or ""))),
    }


def _words(node: LexborNode) -> str:
    return " ".join(node.text(separator=" ").split())[:_LONGEST]


def _images(tree: LexborHTMLParser, resolver: Resolver) -> Iterator[Json]:
    seen: set[str] = set()
    for node in tree.css("img"):
        attributes = node.attributes
        url = resolver.resolve(largest_source(attributes))
        width, height = _pixels(attributes.get("width")), _pixels(attributes.get("height"))
        is_small = any(size is not None and size <= _SMALLEST for size in (width, height))
        if is_small or url in seen or not url.startswith(("http://", "https://")):
            continue
        seen.add(url)
        yield {"url": url, "title": _image_title(node, attributes), "width": width, "height": height}
        if len(seen) >= MOST_IMAGES:
            return


def _image_title(node: LexborNode, attributes: Mapping[str, str | None]) -> str:
    words = (attributes.get("alt") or attributes.get("title") or "").strip()
    parent = node.parent
    if parent is not None and parent.tag != "figure":
        parent = parent.parent
    caption = parent.css_first("figcaption") if parent is not None and parent.tag == "figure" else None
    beside = _words(caption) if caption is not None else ""
    return (words or beside)[:_LONGEST]


def _pixels(value: str | None) -> int | None:
    digits = (value or "").strip().removesuffix("px")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else None


def _structured(tree: LexborHTMLParser) -> Iterator[Json]:
    """Yield the objects of JSON-LD scripts, including those in lists and graphs."""
    waiting: list[Any] = []
    for node in tree.css('script[type="application/ld+json"]')[:_MOST_SCRIPTS]:
        text = node.text()
        if len(text) <= _LONGEST_SCRIPT:
            try:
                waiting.append(json.loads(text))
            except (ValueError, RecursionError):  # the other scripts may be readable
                continue
    steps = 0
    while waiting and steps < _MOST_ITEMS:
        steps += 1
        match waiting.pop(0):
            case list() as many:
                waiting += many[:_MOST_ITEMS]
            case dict() as one:
                yield one
                waiting += [one["@graph"]] if "@graph" in one else []


def _is_article(metadata: Mapping[str, Any], items: list[Json]) -> bool:
    kinds = {str(kind).lower() for item in items for kind in _many(item.get("@type"))}
    kinds.add(str(_first(metadata.get("og:type") or "")).lower())
    return bool(kinds & _ARTICLES or metadata.get("publishedTime"))


def _texts(metadata: Mapping[str, Any], items: list[Json], names: tuple[str, ...]) -> Iterator[str]:
    for holder in (metadata, *items):
        for name in names:
            if isinstance(value := _first(holder.get(name)), str):
                yield value


def _first_date(texts: Iterator[str]) -> str | None:
    """Return the first text that is a date, in ISO 8601 and UTC."""
    for text in texts:
        if (moment := moment_of(text)) is not None:
            return moment.isoformat()
    return None


def moment_of(text: str) -> datetime | None:
    """Return the moment that a text in ISO 8601 or the format of mails names, in UTC; None for other texts."""
    text = text.strip()[:100]
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
