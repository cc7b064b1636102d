"""The links that belong to a crawl or a map, and the reasons for leaving others out."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Self
from urllib.parse import SplitResult, urlunsplit

import re2

from receiver.core.addresses import is_loopback, is_private
from receiver.emulator.fetching.robots import ALLOW_ALL, RobotsRules
from receiver.emulator.fetching.web_urls import (
    host_of,
    is_route,
    own_port,
    registrable_domain,
    split_web_url,
    url_key,
)
from receiver.errors import ReceiverError

MAX_PATTERN_LENGTH = 2_000
MAX_PATTERNS = 1_000


class WrongPattern(ReceiverError):
    """A regular expression cannot be used. The text names it and says why to the caller of the API."""

    def __init__(self, field: str, pattern: str, reason: str) -> None:
        shown = pattern if len(pattern) <= 100 else f"{pattern[:100]}…"
        super().__init__(f"Invalid regular expression {shown!r} in {field}: {reason}")
        self.field, self.pattern = field, pattern


class UrlPatterns:
    """Regular expressions of users, which match anywhere in a text, in linear time. Raises WrongPattern."""

    def __init__(self, patterns: Sequence[str], field: str = "includePaths") -> None:
        if len(patterns) > MAX_PATTERNS:
            raise WrongPattern(field, patterns[MAX_PATTERNS], f"there may be at most {MAX_PATTERNS:,}")
        self._patterns = [_compiled(pattern, field) for pattern in dict.fromkeys(patterns)]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def match(self, text: str) -> bool:
        """Return whether any of them matches somewhere in the text."""
        data = text.encode("utf-8", "replace")
        return any(pattern.search(data) is not None for pattern in self._patterns)


def _compiled(pattern: str, field: str) -> Any:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise WrongPattern(field, pattern, f"it may have at most {MAX_PATTERN_LENGTH:,} characters")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as exc:
        reason = exc.args[0] if exc.args and isinstance(exc, re2.error) else "it is not text"
        raise WrongPattern(field, pattern, reason.decode() if isinstance(reason, bytes) else str(reason)) from None


_EXTENSION = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,4}$")
"""The end of a file's path; a version such as `/v1.2` has none."""


def scope_folder(path: str) -> str:
    """Return the folder of a path with its slash at the end; for a file, the folder around it."""
    if path.endswith("/") or _EXTENSION.search(path):
        return path[: path.rfind("/") + 1]
    return f"{path}/"


def is_in_scope(path: str, seed_path: str) -> bool:
    """Return whether a path is in the scope of a seed.

    A seed with a slash at the end means everything below it, a file its folder, and any other itself and everything
    below.
    """
    folder = scope_folder(seed_path)
    is_seed = path == seed_path and folder == f"{seed_path}/"
    return is_seed or (path or "/").startswith(folder)


MAX_URL_LENGTH = 8_000
"""RFC 9110, section 4.1, recommends to support as much. It limits the work of expressions."""
_FILES = (
    ".png", ".jpg", ".jpeg", ".gif", ".css", ".js", ".ico", ".svg", ".tiff", ".zip", ".exe", ".dmg", ".mp4", ".mp3",
    ".wav", ".pptx", ".xlsx", ".avi", ".flv", ".woff", ".ttf", ".woff2", ".webp", ".inc",
)  # fmt: skip
"""Not pages, unlike .pdf and .docx. Only in lower case, as in the service."""
_SOCIAL = frozenset({
    "facebook", "twitter", "linkedin", "instagram", "pinterest", "github", "calendly", "discord",
})  # fmt: skip
"""Registrable domains without their suffixes."""


class LinkVerdict(StrEnum):
    """Whether a link is followed, or why not."""

    TAKEN = "taken"
    NOT_WEB = "its scheme is not http or https"
    TOO_LONG = "its URL is too long"
    TOO_DEEP = "its path has more parts than maxDepth allows"
    FILE = "it is a file, not a page"
    SECTION = "it leads to a section of a page"
    OUTSIDE_SCOPE = "it is outside of the path that the crawl started at"
    EXCLUDED = "excludePaths matches it"
    NOT_INCLUDED = "no expression of includePaths matches it"
    ROBOTS = "robots.txt forbids it"
    SOCIAL = "it is a social network"
    EXTERNAL = "it is on another host"

    @property
    def is_taken(self) -> bool:
        """Whether the crawl follows the link."""
        return self is LinkVerdict.TAKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlRules:
    """The rules of a crawl's request about links. CrawlScope raises WrongPattern for a wrong expression."""

    include_paths: tuple[str, ...] = ()
    """Regular expressions: a link without a match is left out. Empty for all links."""
    exclude_paths: tuple[str, ...] = ()
    """Regular expressions: a link with a match is left out."""
    regex_on_full_url: bool = False
    """The expressions are matched with the whole URL, not with its path."""
    max_depth: int | None = None
    """Version 1 only: the most path segments beyond those of the seed."""
    crawl_entire_domain: bool = False
    """Pages outside the path of the seed are taken."""
    allow_external_links: bool = False
    """Pages of other sites are taken, except their bare home pages."""
    allow_subdomains: bool = False
    """Pages of all hosts of the registrable domain are taken."""
    ignore_query_parameters: bool = False
    """URLs that differ only in their query are one page."""
    deduplicate_similar_urls: bool = True
    """Similar URLs (`url_key`) are one page."""


class CrawlScope:
    """Judges the links of one crawl. `seed` is an absolute URL, after the redirects of the first page."""

    def __init__(self, seed: str, rules: CrawlRules, robots: RobotsRules = ALLOW_ALL) -> None:
        parts = split_web_url(seed)
        if parts is None:
            raise ValueError(f"a crawl starts at a URL of the web, not at {seed[:200]!r}")
        self.seed, self.rules, self.robots = parts, rules, robots
        self.includes = UrlPatterns(rules.include_paths, "includePaths")
        self.excludes = UrlPatterns(rules.exclude_paths, "excludePaths")
        self.domain = registrable_domain(host_of(parts))
        depth = rules.max_depth
        self.deepest = math.inf if depth is None else depth + _segments(parts.path)
        self.is_local = _is_local(host_of(parts))

    def judge(self, url: str) -> LinkVerdict:
        """Return the verdict on an absolute link, or on the target of a redirect."""
        if len(url) > MAX_URL_LENGTH:
            return LinkVerdict.TOO_LONG
        parts = split_web_url(url)
        if parts is None:
            return LinkVerdict.NOT_WEB
        link = _Link(url, parts, self)
        tests = (*_EVERY_LINK, *(_SAME_HOST if link.is_same_host else _OTHER_HOST))
        return next((verdict for verdict, applies in tests if applies(link)), LinkVerdict.TAKEN)

    def is_own(self, url: str) -> bool:
        """Return whether a URL has the host of the seed."""
        parts = split_web_url(url)
        return parts is not None and _Link(url, parts, self).is_same_host

    def key(self, url: str) -> str:
        """Return the same text for URLs of one page of this crawl."""
        return url_key(
            url, similar=self.rules.deduplicate_similar_urls, ignore_query=self.rules.ignore_query_parameters
        )

    def moved_to(self, seed: str, robots: RobotsRules | None = None) -> Self:
        """Return the scope of a crawl that continues on another host after a redirect of the seed."""
        return type(self)(seed, self.rules, self.robots if robots is None else robots)


class _Link:
    """A link with its properties in a scope."""

    def __init__(self, url: str, parts: SplitResult, scope: CrawlScope) -> None:
        self.url, self.parts, self.scope = url, parts, scope

    @cached_property
    def host(self) -> str:
        return host_of(self.parts)

    @cached_property
    def is_same_host(self) -> bool:
        # Ports count, unlike in the service: sites on this machine differ in nothing else.
        seed = self.scope.seed
        same = self.host.removeprefix("www.") == host_of(seed).removeprefix("www.")
        return same and own_port(self.parts) == own_port(seed)

    @cached_property
    def matched(self) -> str:
        """The text for the expressions."""
        return self.url if self.scope.rules.regex_on_full_url else self.parts.path or "/"

    @property
    def is_outside(self) -> bool:
        return not (self.scope.rules.crawl_entire_domain or is_in_scope(self.parts.path, self.scope.seed.path))

    @property
    def is_not_included(self) -> bool:
        return bool(self.scope.includes) and not self.scope.includes.match(self.matched)

    @property
    def is_taken_abroad(self) -> bool:
        """Whether a link to another host is followed."""
        # A site on the internet must not decide what is fetched from this machine and its network.
        if _is_local(self.host) and not self.scope.is_local:
            return False
        is_bare_home = self.parts.path in ("", "/") and not self.parts.query
        if self.scope.rules.allow_external_links and not is_bare_home:
            return True
        same_port = own_port(self.parts) == own_port(self.scope.seed)
        is_sibling = same_port and registrable_domain(self.host) == self.scope.domain
        return self.scope.rules.allow_subdomains and is_sibling and not self.is_not_included


_Tests = tuple[tuple[LinkVerdict, Callable[[_Link], bool]], ...]

# The first test that applies decides. The order is that of the service.
_EVERY_LINK: _Tests = (
    (LinkVerdict.TOO_DEEP, lambda link: _segments(link.parts.path) > link.scope.deepest),
    (LinkVerdict.FILE, lambda link: link.parts.path.endswith(_FILES)),
)
_SAME_HOST: _Tests = (
    (LinkVerdict.SECTION, lambda link: bool(link.parts.fragment) and not is_route(link.parts.fragment)),
    (LinkVerdict.OUTSIDE_SCOPE, lambda link: link.is_outside),
    (LinkVerdict.EXCLUDED, lambda link: link.scope.excludes.match(link.matched)),
    (LinkVerdict.NOT_INCLUDED, lambda link: link.is_not_included),
    (LinkVerdict.ROBOTS, lambda link: not link.scope.robots.allows(link.url)),
)
_OTHER_HOST: _Tests = (
    (LinkVerdict.SOCIAL, lambda link: registrable_domain(link.host).partition(".")[0] in _SOCIAL),
    (LinkVerdict.EXCLUDED, lambda link: link.scope.excludes.match(link.url)),
    (LinkVerdict.EXTERNAL, lambda link: not link.is_taken_abroad),
)


def _segments(path: str) -> int:
    return sum(1 for segment in path.split("/") if segment)


def _is_local(host: str) -> bool:
    return is_loopback(host) or is_private(host)


_WORD = re.compile(r"[^\W_]+")
_MAX_WORDS = 50


@dataclass(frozen=True, slots=True)
class SiteLink:
    """One URL of a site, with title and description of its page if that was scraped."""

    url: str
    title: str | None = None
    description: str | None = None


class SiteLinks:
    """Collects the URLs of one site, each once, in the order of coming."""

    def __init__(
        self, url: str, *, include_subdomains: bool, ignore_query_parameters: bool, filter_by_path: bool
    ) -> None:
        parts = split_web_url(url)
        if parts is None:
            raise ValueError(f"a site is mapped from a URL of the web, not from {url[:200]!r}")
        self._seed = parts
        self._subdomains = include_subdomains
        self._ignore_query = ignore_query_parameters
        self._path = parts.path if filter_by_path else "/"
        self._found: dict[str, SiteLink] = {}

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[SiteLink]:
        return iter(self._found.values())

    def add(self, urls: Iterable[str], most: int) -> None:
        """Add the URLs that belong to the site, until there are `most`."""
        for url in urls:
            if len(self._found) >= most:
                return
            self.add_page(SiteLink(url))

    def add_page(self, link: SiteLink) -> None:
        """Add a page if it belongs to the site. The first of several with the same URL stays."""
        url = self._listed(link.url)
        if url is not None:
            self._found.setdefault(url_key(url), SiteLink(url, link.title, link.description))

    def _listed(self, url: str) -> str | None:
        """Return the URL in the form of the map; None if it does not belong to the site."""
        parts = split_web_url(url)
        if parts is None or "@" in parts.netloc or not self._is_own_host(host_of(parts)):
            return None
        if own_port(parts) != own_port(self._seed) or not is_in_scope(parts.path, self._path):
            return None
        return urlunsplit((
            parts.scheme,
            parts.netloc,
            parts.path.rstrip("/"),
            "" if self._ignore_query else parts.query,
            parts.fragment if is_route(parts.fragment) else "",
        ))  # fmt: skip

    def _is_own_host(self, host: str) -> bool:
        own = host_of(self._seed)
        if self._subdomains:
            return registrable_domain(host) == registrable_domain(own)
        return host.removeprefix("www.") == own.removeprefix("www.")


def sorted_by_likeness(links: Iterable[SiteLink], search: str) -> list[SiteLink]:
    """Return the links, the most similar to the words of a search first. Equal ones keep their order."""
    words = list(dict.fromkeys(_WORD.findall(search.lower())))[:_MAX_WORDS]

    def likeness(link: SiteLink) -> int:
        text = f"{link.url} {link.title or ''} {link.description or ''}".lower()
        own = set(_WORD.findall(text))
        return sum(2 if word in own else 1 if word in text else 0 for word in words)

    return sorted(links, key=lambda link: -likeness(link))


def described(url: str, metadata: Mapping[str, object]) -> SiteLink:
    """Return the link of a page that was scraped, with its title and description."""
    title, description = (metadata.get(name) for name in ("title", "description"))
    return SiteLink(
        url,
        title=title if isinstance(title, str) else None,
        description=description if isinstance(description, str) else None,
    )
