"""Which URLs are the same page to a crawl."""

from urllib.parse import urlunsplit

from receiver.service.emulator.fetching.web_urls import bracketed, host_of, own_port, split_web_url

_INDEX_FILES = frozenset({"index.html", "index.htm", "index.php"})
_ROUTES = ("/", "!/")
"""How the fragment of a page begins that is put together in the browser."""


def is_route(fragment: str) -> bool:
    """Tell whether a fragment names a page, as in `#/settings`, and not a place in one."""
    return fragment.startswith(_ROUTES)


def url_key(url: str, *, similar: bool = True, ignore_query: bool = False) -> str:
    """Return the same text for URLs of the same page.

    With `similar`, http and https, a host with `www.` or without, a slash at the end and index.html or index.php
    make no difference. A text that is no URL of the web is its own key.
    """
    parts = split_web_url(url)
    if parts is None:
        return url
    host, port = host_of(parts), own_port(parts)
    place = bracketed(host.removeprefix("www.") if similar else host) + ("" if port is None else f":{port}")
    path = _short_path(parts.path) if similar else parts.path or "/"
    query = "" if ignore_query else parts.query
    fragment = parts.fragment if is_route(parts.fragment) else ""
    return urlunsplit(("" if similar else parts.scheme, place, path, query, fragment))


def _short_path(path: str) -> str:
    folder, _, file = path.rpartition("/")
    return folder.rstrip("/") if file in _INDEX_FILES else path.rstrip("/")
