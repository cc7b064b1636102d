"""The addresses in a page: their absolute form, and those of its images."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_WHITE = re.compile(r"[\t\n\r]+")
_TO_QUOTE = re.compile(r"[^\x21\x23-\x3b\x3d\x3f-\x5f\x61-\x7e]+")
"""White space, quotes, angle brackets and everything beyond ASCII: https://url.spec.whatwg.org/#path-percent-encode-set."""


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
        """Return the absolute form of an address; one that cannot be resolved, or is empty, stays as it is."""
        if address not in self._known:
            self._known[address] = self._resolve(address)
        return self._known[address]

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
    """Return the resolver for a page from a URL; its `base` element counts."""
    try:
        own = Resolver(url)
        base = tree.css_first("base[href]")
        href = (base.attributes.get("href") or "").strip() if base is not None else ""
        return Resolver(own.resolve(href)) if href else own
    except ValueError:
        return Resolver("")


def without_fragment(address: str) -> str:
    """Return the address without `#` and what follows."""
    return address.partition("#")[0]


_CANDIDATE = re.compile(r"([^\s,](?:\S*[^\s,])?)(?:\s+(\d{1,9}(?:\.\d{1,9})?)([wx]))?\s*(?:,|$)")
_BACKGROUND = re.compile(r"url\(\s*[\"']?([^\"')]+)")
_PLACEHOLDER = re.compile(r"placeholder|spacer|blank\.|transparent|1x1|loading\.", re.IGNORECASE)
_NODES = "img, picture source, video[poster], link[rel][href], meta[content], [itemprop=image], [style*=background]"
_META = {"og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src"}
_ICONS = {"icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon"}


def largest_source(attributes: Mapping[str, str | None]) -> str:
    """Return the address of an image's largest version; empty without one."""
    source = (attributes.get("src") or "").strip()
    for name in ("srcset", "data-srcset"):
        candidates = list(_candidates(attributes.get(name) or ""))
        if candidates:
            if source and all(unit != "w" for _, _, unit in candidates):
                candidates.append((source, 1.0, "x"))
            return max(candidates, key=lambda one: one[1])[0]
    later = (attributes.get("data-src") or "").strip()
    stands_in = not source or source.startswith(("data:", "about:")) or _PLACEHOLDER.search(source[-200:])
    return later if later and stands_in else source


def _candidates(srcset: str) -> Iterator[tuple[str, float, str]]:
    for found in _CANDIDATE.finditer(srcset):
        yield found[1], float(found[2] or 1), found[3] or "x"


def images_of(tree: LexborHTMLParser, resolver: Resolver) -> tuple[str, ...]:
    """Return the absolute addresses of a page's images, each once, in the order of the page."""
    found: dict[str, None] = {}
    for node in tree.css(_NODES):
        for address in _addresses(node):
            absolute = resolver.resolve(address)
            if absolute and not absolute.startswith(("data:", "blob:", "about:")):
                found.setdefault(absolute)
    return tuple(found)


def _addresses(node: LexborNode) -> Iterator[str]:
    attributes = node.attributes
    for name in _names_of_images(node.tag or "", attributes):
        yield attributes.get(name) or ""
    if node.tag in {"img", "source"}:
        for name in ("srcset", "data-srcset"):
            yield from (address for address, _, _ in _candidates(attributes.get(name) or ""))
    yield from _BACKGROUND.findall(attributes.get("style") or "")


def _names_of_images(tag: str, attributes: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the attributes of an element that hold the address of an image."""
    if tag == "img":
        return ("src", "data-src")
    if tag == "source":
        return ("src",)
    if tag == "video":
        return ("poster",)
    if tag == "link":
        icons = _ICONS.intersection((attributes.get("rel") or "").lower().split())
        return ("href",) if icons or attributes.get("itemprop") == "image" else ()
    if tag == "meta":
        name = (attributes.get("property") or attributes.get("name") or "").lower()
        return ("content",) if name in _META or attributes.get("itemprop") == "image" else ()
    return ("src", "href", "content") if attributes.get("itemprop") == "image" else ()
