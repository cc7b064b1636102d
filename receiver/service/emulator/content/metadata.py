"""What a page says of itself: title, description, language, and all its `meta` elements."""

from typing import Any

from selectolax.lexbor import LexborHTMLParser

from receiver.service.emulator.content.urls import Resolver

_NAMED = {
    "description": "description",
    "keywords": "keywords",
    "robots": "robots",
    "og:title": "ogTitle",
    "og:description": "ogDescription",
    "og:url": "ogUrl",
    "og:image": "ogImage",
    "og:audio": "ogAudio",
    "og:determiner": "ogDeterminer",
    "og:locale": "ogLocale",
    "og:site_name": "ogSiteName",
    "og:video": "ogVideo",
    "article:section": "articleSection",
    "article:tag": "articleTag",
    "article:published_time": "publishedTime",
    "article:modified_time": "modifiedTime",
    "dcterms.created": "dcTermsCreated",
    "dc.date.created": "dcDateCreated",
    "dc.date": "dcDate",
    "dcterms.type": "dcTermsType",
    "dc.type": "dcType",
    "dcterms.audience": "dcTermsAudience",
    "dcterms.subject": "dcTermsSubject",
    "dc.subject": "dcSubject",
    "dc.description": "dcDescription",
    "dcterms.keywords": "dcTermsKeywords",
}
_LOCALES = "og:locale:alternate"
_OURS = [
    "title",
    "favicon",
    "ogLocaleAlternate",
    "scrapeId",
    "sourceURL",
    "url",
    "statusCode",
    "contentType",
    "proxyUsed",
    "cacheState",
    "cachedAt",
    "numPages",
    "totalPages",
    "creditsUsed",
    "timezone",
    "error",
    "concurrencyLimited",
    "concurrencyQueueDurationMs",
    "indexId",
    "postprocessorsUsed",
]
"""Names that the service itself fills in, some of them not with texts. No page may say them."""


def metadata_of(tree: LexborHTMLParser, resolver: Resolver) -> dict[str, Any]:
    """Return the metadata that a page holds, by the service's names and by the page's own."""
    tags = _meta_tags(tree)
    first = {name.lower(): values[0] for name, values in reversed(tags.items())}
    found: dict[str, Any] = {}
    head_title = tree.head.css_first("title") if tree.head is not None else None
    title = head_title.text().strip() if head_title is not None else ""
    if title := title or first.get("og:title") or first.get("twitter:title") or "":
        found["title"] = title
    if language := (_of_root(tree).get("lang") or "").strip():
        found["language"] = language
    if favicon := _favicon(tree, resolver):
        found["favicon"] = favicon
    found.update({ours: first[name] for name, ours in _NAMED.items() if first.get(name)})
    locales = [value for name, values in tags.items() if name.lower() == _LOCALES for value in values]
    if locales:
        found["ogLocaleAlternate"] = locales
    found.update({name: _together(name, values) for name, values in tags.items() if name not in _OURS})
    return found


def _of_root(tree: LexborHTMLParser) -> dict[str, str | None]:
    return tree.root.attributes if tree.root is not None else {}


def _meta_tags(tree: LexborHTMLParser) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for node in tree.css("meta[content]"):
        attributes = node.attributes
        name = attributes.get("name") or attributes.get("property") or attributes.get("itemprop")
        content = attributes.get("content")
        if name and content:
            tags.setdefault(name, []).append(content)
    return tags


def _together(name: str, values: list[str]) -> str | list[str]:
    if len(values) == 1:
        return values[0]
    return ", ".join(values) if name == "description" else values


def _favicon(tree: LexborHTMLParser, resolver: Resolver) -> str:
    for node in tree.css("link[rel][href]"):
        if "icon" in (node.attributes.get("rel") or "").lower().split():
            return resolver.resolve(node.attributes.get("href") or "")
    return ""
