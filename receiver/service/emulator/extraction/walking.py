"""Walks over the tree of a page without recursion, so that its depth does not matter."""

from collections.abc import Iterable
from typing import Protocol

from selectolax.lexbor import LexborHTMLParser, LexborNode

from receiver.service.emulator.content.parsing import parse_html
from receiver.service.emulator.failures import ScrapeFailed

MAX_HTML = 2_000_000
"""Characters of a page that are searched for data."""
_SKIPPED = frozenset({"script", "style", "noscript", "template", "textarea", "svg"})


class TreeListener(Protocol):
    """Hears of elements and texts in the order of the page."""

    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        """Hear that an element begins."""

    def text(self, text: str) -> None:
        """Hear a piece of text."""

    def end(self, tag: str) -> None:
        """Hear that an element ends."""


def parse_page(html: str) -> LexborHTMLParser | None:
    """Return the tree of a page, of its first part if it is huge; None for one that no parser could take in."""
    try:
        return parse_html(html[:MAX_HTML])
    except ScrapeFailed:
        return None


def walk(tree: LexborHTMLParser, listeners: Iterable[TreeListener]) -> None:
    """Tell listeners of each element and text of the body once, except for scripts and the like."""
    node = tree.body
    if node is None:
        return
    heard = tuple(listeners)
    depth = 0
    while True:
        child = _begin(node, heard)
        if child is not None:
            node, depth = child, depth + 1
            continue
        _end(node, heard)
        while depth and (after := node.next) is None:
            parent = node.parent
            if parent is None:
                return
            node, depth = parent, depth - 1
            _end(node, heard)
        if not depth or after is None:
            return
        node = after


def _begin(node: LexborNode, heard: tuple[TreeListener, ...]) -> LexborNode | None:
    """Tell of a node, and return its first child that is to be visited."""
    tag = node.tag or ""
    if tag == "-text":
        text = node.text_content or ""
        for one in heard:
            one.text(text)
        return None
    if tag.startswith(("-", "!", "#")) or tag in _SKIPPED:
        return None
    for one in heard:
        one.begin(tag, node.attributes)
    return node.child


def _end(node: LexborNode, heard: tuple[TreeListener, ...]) -> None:
    tag = node.tag or ""
    if tag and not tag.startswith(("-", "!", "#")) and tag not in _SKIPPED:
        for one in heard:
            one.end(tag)
