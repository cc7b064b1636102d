"""The absolute form of the addresses in a page."""

import re
from urllib.parse import quote, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_WHITE = re.compile(r"[\t\n\r]+")
_TO_QUOTE = re.compile(r"[^\x21\x23-\x3b\x3d\x3f-\x5f\x61-\x7e]+")
"""White space, quotes, angle brackets and all beyond ASCII: https://url.spec.whatwg.org/#path-percent-encode-set."""


class Resolver:
    """Resolves the addresses of one page, each once."""

    def __init__(self, base: str) -> None:
        self.base = base
        parts = urlsplit(base)
        self._scheme = parts.scheme or "http"
        self._origin = f"{self._scheme}://{parts.netloc}"
        self._page = base.partition("#")[0]
        self._known: dict[str, str] = {}

    def resolve(self, address: str) -> str:
        """Return the absolute address; one that cannot be resolved stays as it is. Empty for an empty one."""
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = self._resolve(address)
        return known

    def _resolve(self, address: str) -> str:
        address = address.strip()
        if address.startswith("data:"):
            return address
        address = _WHITE.sub("", address)
        if _TO_QUOTE.search(address):
            address = _TO_QUOTE.sub(lambda found: quote(found[0], safe=""), address)
        if not address or not self.base or _SCHEME.match(address):
            return address
        if address.startswith("//"):
            return f"{self._scheme}:{address}"
        if address.startswith("#"):
            return self._page + address
        if address.startswith("/") and "/." not in address:
            return self._origin + address
        try:
            return urljoin(self.base, address)
        except ValueError:
            return address


def resolver_of(tree: LexborHTMLParser, url: str) -> Resolver:
    """Return the resolver of a page that was read from a URL, by its `base` element if there is one."""
    try:
        own = Resolver(url)
        base = tree.css_first("base[href]")
        href = (base.attributes.get("href") or "").strip() if base is not None else ""
        return Resolver(own.resolve(href)) if href else own
    except ValueError:
        return Resolver("")


def without_fragment(address: str) -> str:
    """Return the address without what stands after `#`."""
    return address.partition("#")[0]
