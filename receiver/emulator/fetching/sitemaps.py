"""The sitemaps of a site (https://www.sitemaps.org/protocol.html): their places, and the URLs that they list."""

import asyncio
import xml.parsers.expat
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlunsplit

from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.exchange import BrokenCoding, decoded, is_gzip
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.robots import RobotsRules
from receiver.emulator.fetching.scope import scope_folder
from receiver.emulator.fetching.web_urls import (
    host_of,
    joined,
    origin_of,
    registrable_domain,
    split_web_url,
    without_credentials,
)

MAX_SITEMAP_BYTES = 50 * 1024 * 1024
MAX_SITEMAP_URLS = 50_000
_MAX_URL_LENGTH = 2_048
_PIECE_BYTES = 1024 * 1024
"""Large, because old versions of expat read a token again with every piece."""
_NAMESPACE_MARK = " "


@dataclass(slots=True)
class SitemapFile:
    """The content of a sitemap file, or of an index of sitemaps: texts, which need not be URLs."""

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)


class _Enough(Exception):
    """The file has as many URLs as are taken, or it may not be read."""


def read_sitemap(data: bytes) -> SitemapFile:
    """Return the list of a file of XML or lines of text, up to a fault or the limits. It may be compressed by gzip.

    A file with a document type is not read: no sitemap needs one, and entities can make it endless.
    """
    if is_gzip(data):
        try:
            data = decoded(data, ["gzip"], MAX_SITEMAP_BYTES, cut=True)
        except BrokenCoding:
            return SitemapFile()
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:4].lower().startswith((b"http", b"www.")):
        lines = (line.strip() for line in data[:MAX_SITEMAP_BYTES].decode("utf-8-sig", "replace").splitlines())
        return SitemapFile([line for line in lines if 0 < len(line) <= _MAX_URL_LENGTH][:MAX_SITEMAP_URLS])
    return _SitemapParser().parsed(data[:MAX_SITEMAP_BYTES])


class _SitemapParser:
    """Reads the `loc` of each `url` and `sitemap` in any namespace, without those of images or videos in them."""

    def __init__(self) -> None:
        self._file = SitemapFile()
        self._open: list[str] = []
        self._text: list[str] | None = None
        self._length = 0
        self._parser = xml.parsers.expat.ParserCreate(namespace_separator=_NAMESPACE_MARK)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._take
        self._parser.StartDoctypeDeclHandler = self._refuse

    def parsed(self, data: bytes) -> SitemapFile:
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                self._parser.Parse(data[start : start + _PIECE_BYTES], False)
            self._parser.Parse(b"", True)
        except (xml.parsers.expat.ExpatError, _Enough, ValueError, LookupError):
            pass  # what is before the fault is good
        return self._file

    def _refuse(self, *_: object) -> None:
        raise _Enough

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(_NAMESPACE_MARK)[2]
        if local == "loc" and self._open and self._open[-1] in ("url", "sitemap"):
            self._text, self._length = [], 0
        self._open.append(local)

    def _take(self, text: str) -> None:
        if self._text is not None and self._length <= _MAX_URL_LENGTH:
            self._text.append(text)
            self._length += len(text)

    def _end(self, name: str) -> None:
        self._open.pop()
        if self._text is None or name.rpartition(_NAMESPACE_MARK)[2] != "loc":
            return
        url, self._text = "".join(self._text).strip(), None
        found = self._file.pages if self._open[-1] == "url" else self._file.sitemaps
        if 0 < len(url) <= _MAX_URL_LENGTH:
            found.append(url)
        if len(found) >= MAX_SITEMAP_URLS:
            raise _Enough


MAX_SITEMAPS = 20
SITEMAP_TIMEOUT = timedelta(seconds=15)


async def sitemap_urls(fetcher: Fetcher, url: str, robots: RobotsRules) -> AsyncGenerator[str, None]:
    """Yield the URLs in the sitemaps for a crawl of `url`, each once, file by file.

    These are the sitemaps that robots.txt names, those in the scope's folder, at the root and at the registrable
    domain, and those that they name in turn: at most 20 files. A file that cannot be read lists nothing.
    """
    waiting = deque(dict.fromkeys([*robots.sitemaps, *_usual_places(url)]))
    asked: set[str] = set()
    known: set[int] = set()  # hashes: a million long URLs would need much memory
    while waiting and len(asked) < MAX_SITEMAPS:
        address = waiting.popleft()
        if address in asked or split_web_url(address) is None:
            continue
        asked.add(address)
        file = await _fetched(fetcher, address)
        waiting.extend(joined(address, one) for one in file.sitemaps[:MAX_SITEMAPS])
        for page in file.pages:
            found = without_credentials(joined(address, page))
            if hash(found) not in known and split_web_url(found) is not None:
                known.add(hash(found))
                yield found


async def _fetched(fetcher: Fetcher, address: str) -> SitemapFile:
    try:
        page = await fetcher.fetch_file(address, timeout=SITEMAP_TIMEOUT, max_bytes=MAX_SITEMAP_BYTES, cut=True)
    except ScrapeFailed:
        return SitemapFile()
    return await asyncio.to_thread(read_sitemap, page.body) if page.status == 200 else SitemapFile()


def _usual_places(url: str) -> Iterator[str]:
    parts = split_web_url(without_credentials(url))
    if parts is None:
        return
    origin = origin_of(parts)
    yield urlunsplit(parts._replace(path=f"{scope_folder(parts.path)}sitemap.xml", query="", fragment=""))
    yield f"{origin}/sitemap.xml"
    host = host_of(parts)
    if registrable_domain(host) != host:
        yield origin.replace(host, registrable_domain(host), 1) + "/sitemap.xml"
