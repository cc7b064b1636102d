"""URLs of pages: their parts, without credentials, and when two are the same page."""

from functools import cache, lru_cache
from ipaddress import ip_address
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import httpx
from publicsuffixlist import PublicSuffixList

DEFAULT_PORTS = {"http": 80, "https": 443}


def split_web_url(url: str) -> SplitResult | None:
    """Return the parts of an absolute URL of the web; None for other texts."""
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_web else None


def request_url(url: str) -> httpx.URL | None:
    """Return the URL for a request: host in ASCII, the rest percent-encoded, no credentials.

    None if it is not an absolute URL of the web.
    """
    try:
        made = httpx.URL(url)
        made = made.copy_with(userinfo=b"") if made.userinfo else made
        bad = split_web_url(url) is None or made.scheme not in DEFAULT_PORTS or not made.host
    except (httpx.InvalidURL, ValueError, UnicodeError):
        return None
    return None if bad else made.copy_with(raw_path=made.raw_path)  # its `path` is decoded


def without_credentials(url: str) -> str:
    """Return the URL without the user name and password in it, otherwise as it was written."""
    parts = split_web_url(url)
    if parts is None or "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def joined(base: str, location: str) -> str:
    """Return the absolute URL of a reference in a page or an answer; the reference itself if it is broken."""
    try:
        return urljoin(base, location)
    except ValueError:
        return location


def origin_of(parts: SplitResult) -> str:
    """Return scheme, host and port, such as `https://docs.acme.test`, without a port that the scheme implies."""
    port = own_port(parts)
    return f"{parts.scheme}://{bracketed(host_of(parts))}" + (f":{port}" if port is not None else "")


def host_of(parts: SplitResult) -> str:
    """Return the host in lower case without a dot at the end."""
    return (parts.hostname or "").removesuffix(".")


def bracketed(host: str) -> str:
    """Return the host as in a URL, where an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def own_port(parts: SplitResult) -> int | None:
    """Return the port; None if it is the one that the scheme implies."""
    return None if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port


@lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """Return the registered domain, such as `acme.co.uk` for `docs.acme.co.uk`. An address is its own."""
    try:
        ip_address(host)
    except ValueError:
        return _suffixes().privatesuffix(host) or host
    return host


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # the list in the package, never one from the network


_INDEX_FILES = frozenset({"index.html", "index.htm", "index.php"})
_ROUTES = ("/", "!/")
"""The beginnings of fragments of pages that the browser builds."""


def is_route(fragment: str) -> bool:
    """Return whether a fragment names a page, as in `#/settings`, and not a place in one."""
    return fragment.startswith(_ROUTES)


def url_key(url: str, *, similar: bool = True, ignore_query: bool = False) -> str:
    """Return the same text for URLs of the same page.

    With `similar`, http and https, a host with or without `www.`, a slash at the end and index.html or index.php
    make no difference. A text that is not a URL of the web is its own key.
    """
    parts = split_web_url(url)
    if parts is None:
        return url
    host, port = host_of(parts), own_port(parts)
    place = bracketed(host.removeprefix("www.") if similar else host) + ("" if port is None else f":{port}")
    path = parts.path or "/"
    if similar:
        folder, _, file = parts.path.rpartition("/")
        path = (folder if file in _INDEX_FILES else parts.path).rstrip("/")
    query = "" if ignore_query else parts.query
    fragment = parts.fragment if is_route(parts.fragment) else ""
    return urlunsplit(("" if similar else parts.scheme, place, path, query, fragment))
