"""Which URLs belong to the map of a site, and in which order they are listed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlunsplit

from receiver.emulator.fetching.scope import is_in_scope
from receiver.emulator.fetching.web_urls import (
    host_of,
    is_route,
    own_port,
    registrable_domain,
    split_web_url,
    url_key,
)

_WORD = re.compile(r"[^\W_]+")
_MAX_WORDS = 50


@dataclass(frozen=True, slots=True)
class SiteLink:
    """One URL of a site, with what is known of its page."""

    url: str
    """The URL."""
    title: str | None = None
    """The title of its page, if that was scraped."""
    description: str | None = None
    """The description of its page, if that was scraped."""


class SiteLinks:
    """Collects the URLs of one site, each once, in the order in which they come."""

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
        """Take up those of some URLs that belong to the site, until there are `most`."""
        for url in urls:
            if len(self._found) >= most:
                return
            self.add_page(SiteLink(url))

    def add_page(self, link: SiteLink) -> None:
        """Take up a page if it belongs to the site. The first one of several with the same URL stays."""
        url = self._listed(link.url)
        if url is not None:
            self._found.setdefault(url_key(url), SiteLink(url, link.title, link.description))

    def _listed(self, url: str) -> str | None:
        """Return the URL as the map lists it; None if it does not belong to the site."""
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
    """Return the links, those that resemble the words of a search first. Equal ones keep their order."""
    words = list(dict.fromkeys(_WORD.findall(search.lower())))[:_MAX_WORDS]
    return sorted(links, key=lambda link: -_likeness(link, words))


def _likeness(link: SiteLink, words: list[str]) -> int:
    """Count 2 for each word that stands in the link, and 1 for each that is a part of one."""
    text = f"{link.url} {link.title or ''} {link.description or ''}".lower()
    own = set(_WORD.findall(text))
    return sum(2 if word in own else 1 if word in text else 0 for word in words)


def described(url: str, metadata: Mapping[str, object]) -> SiteLink:
    """Return the link of a page that was scraped, with its title and description."""
    title, description = (metadata.get(name) for name in ("title", "description"))
    return SiteLink(
        url,
        title=title if isinstance(title, str) else None,
        description=description if isinstance(description, str) else None,
    )
