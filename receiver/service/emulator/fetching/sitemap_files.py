"""One sitemap file, as XML or as lines of text (https://www.sitemaps.org/protocol.html)."""

import xml.parsers.expat
from dataclasses import dataclass, field

from receiver.service.emulator.fetching.codings import BrokenCoding, decoded, is_gzip

MAX_SITEMAP_BYTES = 50 * 1024 * 1024
MAX_SITEMAP_URLS = 50_000
_MAX_URL_LENGTH = 2_048
_PIECE_BYTES = 1024 * 1024
"""Large, because old versions of expat read a token anew with every piece."""
_NAMESPACE_MARK = " "


@dataclass(slots=True)
class SitemapFile:
    """What a sitemap file lists: pages, or further sitemaps. Both are texts that may be no URLs."""

    pages: list[str] = field(default_factory=list)
    """The pages that it lists."""
    sitemaps: list[str] = field(default_factory=list)
    """The sitemaps that it lists, if it is an index."""


class _Enough(Exception):
    """The file has as many URLs as are taken, or it is none that is read."""


def read_sitemap(data: bytes) -> SitemapFile:
    """Return what a file lists, up to where it is broken, too large or too long. It may be compressed by gzip.

    A file with a document type is not read: no sitemap needs one, and entities can make it endless.
    """
    if is_gzip(data):
        try:
            data = decoded(data, ["gzip"], MAX_SITEMAP_BYTES, cut=True)
        except BrokenCoding:
            return SitemapFile()
    if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:4].lower().startswith((b"http", b"www.")):
        return SitemapFile(pages=_lines(data))
    return _SitemapParser().parsed(data[:MAX_SITEMAP_BYTES])


def _lines(data: bytes) -> list[str]:
    lines = (line.strip() for line in data[:MAX_SITEMAP_BYTES].decode("utf-8-sig", "replace").splitlines())
    return [line for line in lines if 0 < len(line) <= _MAX_URL_LENGTH][:MAX_SITEMAP_URLS]


class _SitemapParser:
    """Reads the `loc` of each `url` and `sitemap`, of any namespace, but not those of images or videos in them."""

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
            return self._file  # what stands before the fault is good
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
