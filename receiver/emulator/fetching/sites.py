"""Sites that are given to the emulator as folders or mappings: it serves them itself, without any network."""

import mimetypes
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

import httpx
from typing_extensions import override

from receiver.emulator.bundled import BUNDLED_ORIGIN, BUNDLED_SITE
from receiver.emulator.fetching.web_urls import origin_of, split_web_url
from receiver.emulator.options import EmulatorOptions, SiteSource
from receiver.errors import ConfigurationError

_MAX_RULES = 10_000


@dataclass(frozen=True, slots=True)
class SiteRule:
    """A line of `_redirects`: `FROM TO [STATUS]`, such as `/old/* /new/:splat 302` or `/shop /closed.html 503!`.

    A status of 3xx redirects (301 by default), any other answers with that status and the page TO. A file of the
    site has precedence, unless the status ends with `!`. FROM may end with `/*`; TO has the rest as `:splat`.
    """

    path: str
    to: str
    status: int
    is_forced: bool
    """It has precedence over a file of the site."""

    @property
    def redirects(self) -> bool:
        """Whether the status is 3xx."""
        return 300 <= self.status < 400

    def location(self, path: str) -> str | None:
        """Return the target for a path; None if the rule does not match it."""
        if self.path.endswith("/*"):
            start = self.path[:-1]
            splat = path[len(start) :] if path.startswith(start) else None
            return self.to.replace(":splat", splat) if splat is not None else None
        return self.to if path.rstrip("/") == self.path.rstrip("/") else None


def read_rules(text: str | bytes) -> Iterator[SiteRule]:
    """Yield the rules of a file in order, without invalid lines."""
    lines = (text if isinstance(text, str) else text.decode("utf-8", "replace")).splitlines()
    for line in lines[:_MAX_RULES]:
        rule = _rule(list(takewhile(lambda word: not word.startswith("#"), line.split())))
        if rule is not None:
            yield rule


def _rule(words: list[str]) -> SiteRule | None:
    match words:
        case [path, to]:
            status = "301"
        case [path, to, status]:
            pass
        case _:
            return None
    digits = status.removesuffix("!")
    if not path.startswith("/") or not (digits.isascii() and digits.isdigit() and 200 <= int(digits[:4]) < 600):
        return None
    return SiteRule(quote(path, safe="/*%:+,;=@&$!'()~"), to, int(digits), is_forced=status.endswith("!"))


_MAX_FILES = 200_000
"""The most files of a folder that are listed."""


class SiteFiles(Protocol):
    """The files of a site, read at each request. Names have no leading slash and no escapes: `docs/index.html`."""

    def read(self, name: str, max_bytes: int) -> str | bytes | None:
        """Return a file's content, possibly cut one byte after `max_bytes`; None if there is no such file."""

    def names(self) -> Iterator[str]:
        """Yield the names of all files."""

    def __contains__(self, name: object) -> bool: ...


class FolderFiles(SiteFiles):
    """The files in a folder. No name and no symbolic link leads out of it; hidden files are left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def read(self, name: str, max_bytes: int) -> bytes | None:
        path = self._path(name)
        if path is None:
            return None
        try:
            # It does not wait for the writer of a pipe, and follows no link that was made since.
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return None
        with open(handle, "rb") as file:  # noqa: PTH123 - a Path cannot be opened by its descriptor
            return file.read(max_bytes + 1)

    @override
    def names(self) -> Iterator[str]:
        count = 0
        for folder, folders, files in os.walk(self._folder):
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            for file in sorted(files):
                name = (Path(folder) / file).relative_to(self._folder).as_posix()
                if name in self:
                    yield name
                count += 1
                if count >= _MAX_FILES:
                    return

    @override
    def __contains__(self, name: object) -> bool:
        path = self._path(str(name))
        return path is not None and path.is_file()

    def _path(self, name: str) -> Path | None:
        """Return the real path of a name; None if it is not in this folder."""
        # No part is empty or dots, and there is no NUL and no backslash.
        if not {"", ".", ".."}.isdisjoint(name.split("/")) or not {"\0", "\\"}.isdisjoint(name):
            return None
        try:
            (self._folder / name).stat()  # fails fast: most names that are asked for do not exist
            root = os.path.realpath(self._folder)
            path = os.path.realpath(self._folder / name, strict=True)
        except (OSError, ValueError):
            return None
        inner = Path(path)
        if path == root or not inner.is_relative_to(root):
            return None
        parts = (*name.split("/"), *inner.relative_to(root).parts)
        return None if any(part.startswith(".") and part != ".well-known" for part in parts) else inner


class MappedFiles(SiteFiles):
    """The files in a mapping. Its keys are absolute URLs or paths, as in links: `/docs/`, `/list?page=2`."""

    def __init__(self, origin: str, pages: Mapping[str, str | bytes]) -> None:
        self._origin = origin
        self._pages = pages

    @override
    def read(self, name: str, max_bytes: int) -> str | bytes | None:
        key = self._key(name)
        return None if key is None else self._pages[key]

    @override
    def names(self) -> Iterator[str]:
        for key in list(self._pages):
            yield unquote(key.removeprefix(self._origin).partition("?")[0].removeprefix("/"))

    @override
    def __contains__(self, name: object) -> bool:
        return self._key(str(name)) is not None

    def _key(self, name: str) -> str | None:
        spellings = (name, quote(name, safe="/?&=%:+,;@$!*'()~", errors="surrogateescape"))
        keys = (f"{start}{one}" for one in spellings for start in (f"{self._origin}/", "/", ""))
        # The home page may be the bare origin.
        return next((key for key in (*keys, *([self._origin] if not name else [])) if key in self._pages), None)


_MORE = {
    ".atom": "application/atom+xml", ".avif": "image/avif", ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".epub": "application/epub+zip", ".gz": "application/gzip", ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript", ".markdown": "text/markdown", ".md": "text/markdown", ".mjs": "text/javascript",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".rss": "application/rss+xml", ".rtf": "application/rtf", ".webmanifest": "application/manifest+json",
    ".webp": "image/webp", ".woff": "font/woff", ".woff2": "font/woff2", ".xhtml": "application/xhtml+xml",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xml": "application/xml",
}  # fmt: skip

_DOCUMENTS = frozenset(
    {".csv", ".docx", ".epub", ".markdown", ".md", ".odp", ".ods", ".odt", ".pdf", ".pptx", ".rtf", ".txt", ".xlsx"}
)
HTML = "text/html"
# The tables of Python, not of the machine: a site is the same everywhere.
_KNOWN = mimetypes.MimeTypes().types_map[True] | _MORE


def content_type_of(name: str, content: str | bytes) -> str:
    """Return the Content-Type of a file by its name, or else its beginning. Texts have the charset UTF-8."""
    kind = _KNOWN.get(PurePosixPath(name).suffix.lower()) or _kind_of(content)
    is_text = kind.startswith("text/") or kind.endswith(("/json", "xml"))
    return f"{kind}; charset=utf-8" if isinstance(content, str) and is_text else kind


def is_page(name: str) -> bool:
    """Return whether a file is a page of HTML by its name, as is one without a known suffix."""
    return _KNOWN.get(PurePosixPath(name).suffix.lower(), HTML) == HTML


def is_document(name: str) -> bool:
    """Return whether a file is a PDF, an office file or a text for people by its name."""
    return PurePosixPath(name).suffix.lower() in _DOCUMENTS


def _kind_of(content: str | bytes) -> str:
    if isinstance(content, str):
        return HTML
    if content.lstrip()[:1] == b"<":
        return HTML
    return "application/octet-stream" if b"\0" in content[:1024] else "text/plain"


_RULES_FILE = "_redirects"
_RULES_BYTES = 1024 * 1024
_MAX_LISTED = 50_000
"""URLs in a sitemap: https://www.sitemaps.org/protocol.html."""
_SAMPLE_PAGES, _SAMPLE_BYTES = 20, 64 * 1024
"""Pages of a folder, and bytes of each, that are read to see how its pages link to each other."""
_NOT_FOUND = "<!doctype html><title>404 Not Found</title><h1>Not Found</h1><p>This site has no such page.</p>"


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """The answer of a given site to a GET."""

    status: int
    content_type: str = HTML
    content: str | bytes = b""
    location: str = ""

    def body(self) -> bytes:
        """Return the content as bytes."""
        return self.content.encode() if isinstance(self.content, str) else self.content


class GivenSite:
    """One site. Its files may change while the emulator runs."""

    def __init__(self, origin: str, source: SiteSource) -> None:
        self.origin = origin
        self._is_folder = not isinstance(source, Mapping)
        own = re.escape(origin.encode())
        # A link to a file of the site; `docs/index.html` counts as `docs/`.
        self._file_link = re.compile(
            rb"href\s*=\s*[\"']?(?:" + own + rb")?(?![a-z]+:|//)[^\"'>\s?#]*\.html\b", re.IGNORECASE
        )
        self._files: SiteFiles = MappedFiles(origin, source) if isinstance(source, Mapping) else FolderFiles(source)

    def answer(self, target: str, max_bytes: int) -> SiteAnswer:
        """Return the answer for a path with its query. The content may be longer than `max_bytes`.

        A path is the name of a file, also without `.html` or `index.html`. `_redirects` has further rules.
        """
        path, _, query = target.partition("?")
        name = unquote(path.removeprefix("/"), errors="surrogateescape")
        rule, location = self._rule(path)
        if rule is not None and rule.is_forced:
            return self._by_rule(rule, location, max_bytes)
        found = self._page(name, query, max_bytes)
        if found is None and rule is not None:
            found = self._by_rule(rule, location, max_bytes)
        if found is not None or (found := self._made(path)) is not None:
            return found
        page = self._page("404.html", "", max_bytes)
        return SiteAnswer(404, page.content_type, page.content) if page else SiteAnswer(404, HTML, _NOT_FOUND)

    def page_urls(self) -> Iterator[str]:
        """Yield the URLs of all pages, each once, in the form of the site's links.

        In a folder `x.html` is the page `/x`, unless links of the site name `.html` files.
        """
        shortens = self._is_folder and not self._links_to_files()
        for name in self._page_names():
            url = name.removesuffix("index.html") if name.split("/")[-1] == "index.html" else name
            short = url.removesuffix(".html")
            if shortens and short not in self._files and f"{short}/index.html" not in self._files:
                url = short
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
    """All given sites by origin. Raises ConfigurationError for a wrong origin or folder."""

    def __init__(self, options: EmulatorOptions) -> None:
        given = {_checked_origin(origin): _checked_source(origin, one) for origin, one in options.sites.items()}
        bundled = {BUNDLED_ORIGIN: BUNDLED_SITE} if options.bundled_site else {}
        self._sites = {origin: GivenSite(origin, one) for origin, one in {**bundled, **given}.items()}

    @property
    def origins(self) -> tuple[str, ...]:
        """Such as `https://docs.acme.test`."""
        return tuple(self._sites)

    def has(self, url: httpx.URL) -> bool:
        """Return whether a URL is of a given site, or redirected to one."""
        host = url.netloc.decode("ascii").removesuffix(".").lower()
        return any(f"{scheme}://{host}" in self._sites for scheme in ("http", "https"))

    def document_urls(self, origin: str) -> Iterator[str]:
        """Yield the URLs of all pages of a site, and of its files that may have text."""
        return self._sites[origin].document_urls()

    def answer(self, url: httpx.URL, max_bytes: int) -> SiteAnswer | None:
        """Return the answer of a given site to a GET of this URL; None if there is no such site.

        A site that was given with https redirects http, as sites do, and the other way round.
        """
        origin = _origin(url)
        target = url.raw_path.decode("ascii")
        if (site := self._sites.get(origin)) is not None:
            return site.answer(target, max_bytes)
        twin = f"{'http' if url.scheme == 'https' else 'https'}://{origin.partition('://')[2]}"
        return SiteAnswer(301, location=f"{twin}{target}") if url.port is None and twin in self._sites else None


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
