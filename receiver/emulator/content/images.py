"""The images of a page, and which one of several sizes is taken."""

import re
from collections.abc import Iterator, Mapping

from selectolax.lexbor import LexborHTMLParser, LexborNode

from receiver.emulator.content.urls import Resolver

_CANDIDATE = re.compile(r"([^\s,](?:\S*[^\s,])?)(?:\s+(\d{1,9}(?:\.\d{1,9})?)([wx]))?\s*(?:,|$)")
_BACKGROUND = re.compile(r"url\(\s*[\"']?([^\"')]+)")
_PLACEHOLDER = re.compile(r"placeholder|spacer|blank\.|transparent|1x1|loading\.", re.IGNORECASE)
_NODES = "img, picture source, video[poster], link[rel][href], meta[content], [itemprop=image], [style*=background]"
_META = {"og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src"}
_ICONS = {"icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon"}


def largest_source(attributes: Mapping[str, str | None]) -> str:
    """Return the address of an image's largest version; empty without any."""
    source = (attributes.get("src") or "").strip()
    for name in ("srcset", "data-srcset"):
        candidates = list(_candidates(attributes.get(name) or ""))
        if candidates:
            if source and all(unit != "w" for _, _, unit in candidates):
                candidates.append((source, 1.0, "x"))
            return max(candidates, key=lambda one: one[1])[0]
    later = (attributes.get("data-src") or "").strip()
    return later if later and _is_placeholder(source) else source


def _candidates(srcset: str) -> Iterator[tuple[str, float, str]]:
    for found in _CANDIDATE.finditer(srcset):
        yield found[1], float(found[2] or 1), found[3] or "x"


def _is_placeholder(source: str) -> bool:
    return not source or source.startswith(("data:", "about:")) or bool(_PLACEHOLDER.search(source[-200:]))


def images_of(tree: LexborHTMLParser, resolver: Resolver) -> tuple[str, ...]:
    """Return the absolute addresses of all images of a page, each once, in its order."""
    found: dict[str, None] = {}
    for node in tree.css(_NODES):
        for address in _addresses(node):
            absolute = resolver.resolve(address)
            if absolute and not absolute.startswith(("data:", "blob:", "about:")):
                found.setdefault(absolute)
    return tuple(found)


def _addresses(node: LexborNode) -> Iterator[str]:
    attributes = node.attributes
    for name in _names(node.tag or "", attributes):
        yield attributes.get(name) or ""
    if node.tag in {"img", "source"}:
        for name in ("srcset", "data-srcset"):
            yield from (address for address, _, _ in _candidates(attributes.get(name) or ""))
    yield from _BACKGROUND.findall(attributes.get("style") or "")


def _names(tag: str, attributes: Mapping[str, str | None]) -> tuple[str, ...]:
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
