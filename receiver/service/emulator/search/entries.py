"""A page as the search index takes it."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlunsplit

from receiver.core.clock import to_micros
from receiver.service.emulator.content.kinds import ContentKind, kind_of
from receiver.service.emulator.content.outline import moment_of
from receiver.service.emulator.fetching.url_keys import is_route, url_key
from receiver.service.emulator.fetching.web_urls import host_of, split_web_url, without_credentials
from receiver.service.emulator.scrapes import FetchedPage
from receiver.service.emulator.scraping.passages import plain_blocks
from receiver.service.emulator.scraping.ports import ReadContent
from receiver.service.emulator.search.words import EVERY, host_names, indexed, mark, month_of, words_of_url

_MOST_BODY = 100_000
_MOST_HEADINGS = 5_000
_FILE_TYPES = {
    ContentKind.PDF: "pdf",
    ContentKind.DOCX: "docx",
    ContentKind.XLSX: "xlsx",
    ContentKind.PPTX: "pptx",
    ContentKind.OPEN_DOCUMENT: "odt",
    ContentKind.EPUB: "epub",
    ContentKind.RTF: "rtf",
    ContentKind.CSV: "csv",
    ContentKind.JSON: "json",
    ContentKind.XML: "xml",
    ContentKind.TEXT: "txt",
    ContentKind.HTML: "html",
}


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """An image on a page."""

    url: str
    """Its address."""
    title: str
    """What the page says of it; it may be empty."""
    width: int | None
    """In pixels, if the page says so."""
    height: int | None
    """In pixels, if the page says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntry:
    """What the index keeps of a page. Its texts are those of `indexed`."""

    key: str
    """Equal for all spellings of its address."""
    url: str
    """Its address, without fragment and credentials."""
    host: str
    """The host in lower case."""
    title: str
    """Never empty."""
    place: str
    """The words of the address."""
    headings: str
    """One a line."""
    description: str
    """What the page says of itself; it may be empty."""
    body: str
    """Its text, one block a line."""
    marks: str
    """Words for its host, its type, its month."""
    dated_at: int
    """When it says it was published or changed, or else when it was fetched, in microseconds."""
    published: str
    """When it says it was published; empty if it does not."""
    is_news: bool
    """Whether it is an article with a date."""
    picture: str
    """The address of the picture that stands for it; it may be empty."""
    images: tuple[IndexedImage, ...] = ()
    """Its images."""

    @property
    def digest(self) -> bytes:
        """Equal for entries of the same content."""
        parts = (self.title, self.headings, self.description, self.body, self.published, repr(self.images))
        return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()


def entry_of(page: FetchedPage, content: ReadContent) -> PageEntry | None:
    """Return the entry of a page whose outline was made; None for an address that nobody could ask for."""
    url = without_credentials(page.url)
    parts = split_web_url(url)
    if parts is None or content.outline is None:
        return None
    outline = content.outline
    if not is_route(parts.fragment):
        url = urlunsplit(parts._replace(fragment=""))
    blocks = plain_blocks(str(outline.get("text") or ""))
    headings = [str(one) for one in outline.get("headings") or ()]
    published, modified = str(outline.get("published") or ""), str(outline.get("modified") or "")
    dated_at = moment_of(published) or moment_of(modified) or page.fetched_at
    is_news = bool(outline.get("isArticle"))
    host = host_of(parts)
    return PageEntry(
        key=url_key(url),
        url=url,
        host=host,
        title=indexed(_title(content.metadata, headings, blocks, unquote(parts.path)) or host),
        place=indexed(words_of_url(parts)),
        headings=indexed("\n".join(headings)[:_MOST_HEADINGS]),
        description=indexed(_text(content.metadata.get("description") or content.metadata.get("ogDescription"))),
        body=indexed("\n".join(blocks)[:_MOST_BODY]),
        marks=" ".join(_marks(page, host, dated_at, is_news=is_news)),
        dated_at=to_micros(dated_at),
        published=published,
        is_news=is_news,
        picture=str(outline.get("picture") or ""),
        images=tuple(_images(outline)),
    )


def _title(metadata: Mapping[str, Any], headings: list[str], blocks: list[str], path: str) -> str:
    """Return the title of a page; one without a title is named after its first heading, or its file."""
    names = (_text(metadata.get("title")), *headings[:1], PurePosixPath(path).name, *blocks[:1])
    return next((name.strip()[:300] for name in names if name.strip()), "")


def _text(value: object) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    return " ".join(str(value or "").split())[:2_000]


def _marks(page: FetchedPage, host: str, dated_at: datetime, *, is_news: bool) -> Iterator[str]:
    yield mark(EVERY, "")
    for name in host_names(host):
        yield mark("host", name)
    kind = kind_of(page.body[:4096], page.content_type, page.url)
    yield mark("type", _FILE_TYPES.get(kind, "html"))
    if ending := PurePosixPath(page.url.partition("?")[0]).suffix.lower().lstrip("."):
        yield mark("type", ending)
    yield mark("month", month_of(dated_at))
    if is_news:
        yield mark("news", "")


def _images(outline: Mapping[str, Any]) -> Iterator[IndexedImage]:
    for one in outline.get("images") or ():
        yield IndexedImage(str(one["url"]), indexed(str(one["title"])), one["width"], one["height"])
