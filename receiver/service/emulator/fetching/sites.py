"""Sites that are given to the emulator: it serves them itself, and no network is used for them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

import httpx

from receiver.errors import ConfigurationError
from receiver.service.emulator.bundled import BUNDLED_ORIGIN, BUNDLED_SITE
from receiver.service.emulator.fetching.content_types import HTML, content_type_of, is_document, is_page
from receiver.service.emulator.fetching.site_redirects import SiteRule, read_rules
from receiver.service.emulator.fetching.site_sources import FolderFiles, MappedFiles, SiteFiles
from receiver.service.emulator.fetching.web_urls import origin_of, split_web_url
from receiver.service.emulator.options import EmulatorOptions, SiteSource

_RULES_FILE = "_redirects"
_RULES_BYTES = 1024 * 1024
_MAX_LISTED = 50_000
"""URLs in a sitemap: https://www.sitemaps.org/protocol.html."""
_SAMPLE_PAGES, _SAMPLE_BYTES = 20, 64 * 1024
"""So much of a folder is read to see how its pages link to each other."""
_NOT_FOUND = "<!doctype html><title>404 Not Found</title><h1>Not Found</h1><p>This site has no such page.</p>"


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """What a given site answers to a GET."""

    status: int
    """HTTP status."""
    content_type: str = HTML
    """The Content-Type header."""
    content: str | bytes = b""
    """The body."""
    location: str = ""
    """Where a redirect leads to, as the site's rules have it."""

    def body(self) -> bytes:
        """Return the bytes."""
        return self.content.encode() if isinstance(self.content, str) else self.content


class GivenSite:
    """One site: its files are read at each request, so they may change while the emulator runs."""

    def __init__(self, origin: str, source: SiteSource) -> None:
        self.origin = origin
        self._is_folder = not isinstance(source, Mapping)
        own = re.escape(origin.encode())
        # A link to a file of the site; `docs/index.html` counts as `docs/`, whoever links how.
        self._file_link = re.compile(
            rb"href\s*=\s*[\"']?(?:" + own + rb")?(?![a-z]+:|//)[^\"'>\s?#]*\.html\b", re.IGNORECASE
        )
        self._files: SiteFiles = MappedFiles(origin, source) if isinstance(source, Mapping) else FolderFiles(source)

    def answer(self, target: str, max_bytes: int) -> SiteAnswer:
        """Return the answer for a path with its query. The content may be one byte longer than `max_bytes`.

        A path is a file's name; without `.html` or `index.html` too. `_redirects` has rules of its own.
        """
        path, _, query = target.partition("?")
        name = unquote(path.removeprefix("/"), errors="surrogateescape")
        rule, location = self._rule(path)
        if rule is not None and rule.is_forced:
            return self._by_rule(rule, location, max_bytes)
        found = self._page(name, query, max_bytes)
        if found is None and rule is not None:
            found = self._by_rule(rule, location, max_bytes)
        return found or self._made(path) or self._missing(max_bytes)

    def page_urls(self) -> Iterator[str]:
        """Yield the URLs of all pages, each page once: as the pages of the site link to each other.

        In a folder `x.html` is the page `/x`, unless links of the site name `.html` files.
        """
        shortens = self._is_folder and not self._links_to_files()
        for name in self._page_names():
            url = name.removesuffix("index.html") if name.split("/")[-1] == "index.html" else name
            if shortens and url.endswith(".html") and not self._is_taken(url.removesuffix(".html")):
                url = url.removesuffix(".html")
            yield f"{self.origin}/{quote(url, errors='surrogateescape')}"

    def _page_names(self) -> Iterator[str]:
        return (name for name in self._files.names() if is_page(name) and name not in ("404.html", _RULES_FILE))

    def _links_to_files(self) -> bool:
        for name in islice(self._page_names(), _SAMPLE_PAGES):
            content = self._files.read(name, _SAMPLE_BYTES) or b""
            data = content.encode("utf-8", "replace") if isinstance(content, str) else content
            if any(not link[0].endswith(b"index.html") for link in self._file_link.finditer(data)):
                return True
        return False

    def _is_taken(self, name: str) -> bool:
        return name in self._files or f"{name}/index.html" in self._files

    def document_urls(self) -> Iterator[str]:
        """Yield the URLs of all pages, and of all files that may have text."""
        yield from self.page_urls()
        for name in self._files.names():
            if is_document(name) and name != "robots.txt":
                yield f"{self.origin}/{quote(name, errors='surrogateescape')}"

    def _page(self, name: str, query: str, max_bytes: int) -> SiteAnswer | None:
        for candidate in _candidates(name, query):
            content = None if candidate == _RULES_FILE else self._files.read(candidate, max_bytes)
            if content is not None:
                return SiteAnswer(200, content_type_of(candidate.partition("?")[0], content), content)
        if name and not name.endswith("/") and any(f"{name}/{home}" in self._files for home in ("index.html", "")):
            return SiteAnswer(301, location=f"/{quote(name, errors='surrogateescape')}/")
        return None

    def _rule(self, path: str) -> tuple[SiteRule | None, str]:
        text = self._files.read(_RULES_FILE, _RULES_BYTES)
        for rule in read_rules(text) if text else ():
            location = rule.location(path)
            if location is not None:
                return rule, location
        return None, ""

    def _by_rule(self, rule: SiteRule, location: str, max_bytes: int) -> SiteAnswer:
        if rule.redirects:
            return SiteAnswer(rule.status, location=location)
        name = unquote(location.partition("?")[0].removeprefix("/"))
        page = self._page(name, "", max_bytes)
        return SiteAnswer(rule.status, page.content_type, page.content) if page else SiteAnswer(rule.status)

    def _made(self, path: str) -> SiteAnswer | None:
        if path != "/sitemap.xml":
            return None
        urls = (url for _, url in zip(range(_MAX_LISTED), self.page_urls(), strict=False))
        rows = "".join(f"<url><loc>{escape(url)}</loc></url>\n" for url in dict.fromkeys(urls))
        head = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        )
        return SiteAnswer(200, "application/xml", f"{head}{rows}</urlset>\n")

    def _missing(self, max_bytes: int) -> SiteAnswer:
        page = self._page("404.html", "", max_bytes)
        return SiteAnswer(404, page.content_type, page.content) if page else SiteAnswer(404, HTML, _NOT_FOUND)


def _candidates(name: str, query: str) -> Iterator[str]:
    if query:
        yield f"{name}?{query}"
    yield name
    base = name.removesuffix("/")
    if name == "" or name.endswith("/"):
        yield f"{name}index.html"
    if base:
        yield f"{base}.html"
        if base != name:
            yield base


class GivenSites:
    """All given sites, by their origins. A wrong origin or folder is a ConfigurationError."""

    def __init__(self, options: EmulatorOptions) -> None:
        given = {_checked_origin(origin): _checked_source(origin, one) for origin, one in options.sites.items()}
        bundled = {BUNDLED_ORIGIN: BUNDLED_SITE} if options.bundled_site else {}
        self._sites = {origin: GivenSite(origin, one) for origin, one in {**bundled, **given}.items()}

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins, such as `https://docs.acme.test`."""
        return tuple(self._sites)

    def has(self, url: httpx.URL) -> bool:
        """Tell whether a URL is of a given site, or redirected to it."""
        host = url.netloc.decode("ascii").removesuffix(".").lower()
        return any(f"{scheme}://{host}" in self._sites for scheme in ("http", "https"))

    def document_urls(self, origin: str) -> Iterator[str]:
        """Yield the URLs of all pages of a site, and of its files that may have text."""
        return self._sites[origin].document_urls()

    def answer(self, url: httpx.URL, max_bytes: int) -> SiteAnswer | None:
        """Return what a given site answers to a GET of this URL; None if the URL is of no given site.

        A site that was given with https answers http with a redirect, as sites do, and the other way round.
        """
        origin = _origin(url)
        target = url.raw_path.decode("ascii")
        if (site := self._sites.get(origin)) is not None:
            return site.answer(target, max_bytes)
        twin = _twin(url, origin)
        return SiteAnswer(301, location=f"{twin}{target}") if url.port is None and twin in self._sites else None


def _twin(url: httpx.URL, origin: str) -> str:
    other = "http" if url.scheme == "https" else "https"
    return f"{other}://{origin.partition('://')[2]}"


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii').removesuffix('.').lower()}"


def _checked_origin(text: str) -> str:
    parts = split_web_url(text)
    if parts is None or parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigurationError(f"a site is given by its origin, such as https://docs.acme.test, not as {text!r}")
    try:
        return _origin(httpx.URL(origin_of(parts)))
    except httpx.InvalidURL:
        raise ConfigurationError(f"the origin {text!r} has no valid host") from None


def _checked_source(origin: str, source: SiteSource) -> SiteSource:
    if isinstance(source, Path) and not source.is_dir():
        raise ConfigurationError(f"the folder {source} of the site {origin} is not there")
    if isinstance(source, Mapping):
        home = origin.removesuffix("/")
        strange = next((key for key in source if "://" in key and not f"{key}/".startswith(f"{home}/")), None)
        if strange is not None:
            raise ConfigurationError(f"the page {strange!r} is not of the site {origin}")
    return source
