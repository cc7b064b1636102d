"""Removes from a tree what is never content, then what was excluded, then what surrounds the main content."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from receiver.emulator.content.parsing import content_root
from receiver.emulator.content.urls import Resolver, largest_source, without_fragment

_NEVER = "head, meta, noscript, style, script"
_TAGS = "header footer nav aside"
_CLASSES = (
    "header top navbar footer bottom sidebar side aside modal popup overlay ad ads advert lang-selector language"
    " social social-media social-links menu navigation breadcrumbs share widget cookie fc-decoration"
)
_IDS = "header footer sidebar modal ad language-selector social nav breadcrumbs share widget cookie"
_AROUND = ", ".join(
    [*_TAGS.split(), *(f".{name}" for name in _CLASSES.split()), *(f"#{name}" for name in _IDS.split())]
)
_MAIN = "#main, .swoogo-cols, .swoogo-text, .swoogo-table-div, .swoogo-space, .swoogo-alert, .swoogo-sponsors"
"""An element around one of these always counts as main content."""
_SKIP = re.compile(r"\[skip to content\]\([^()\s]*#[^()]*\)", re.IGNORECASE)
_MOST_COPIED = 20_000_000
_MOST_SELECTORS = 200


@dataclass(slots=True)
class CleanPage:
    """A cleaned tree."""

    tree: LexborHTMLParser
    root: LexborNode
    links: list[str] = field(default_factory=list)
    """Absolute, without fragments, each once, in the order of the page."""
    warnings: list[str] = field(default_factory=list)
    """For the caller: which options had no effect, or only a part of it."""


def clean(
    tree: LexborHTMLParser,
    resolver: Resolver,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    only_main: bool = True,
) -> CleanPage:
    """Clean a tree in place, by the service's rules (emulator facts, section 7), and return what is left."""
    page = CleanPage(tree, content_root(tree))
    if included := list(include):
        _keep_only(page, included)
    _remove(page.root, page.tree.css(_NEVER))
    for selector in list(exclude)[:_MOST_SELECTORS]:
        _remove(page.root, _matches(page, selector, "excludeTags"))
    if only_main:
        _remove_around(page)
    for image in page.root.css("img"):
        _choose_source(image, resolver)
    page.links = _absolute_links(page.root, resolver)
    return page


def matches(tree: LexborHTMLParser, selector: str) -> list[LexborNode] | None:
    """Return the elements that a CSS selector matches; None if it is not a selector."""
    try:
        return list(tree.css(selector)) if selector.strip() else None
    except SelectolaxError:
        return None


def _matches(page: CleanPage, selector: str, option: str) -> list[LexborNode]:
    if len(selector) > 2 and selector.startswith("*") and selector.endswith("*"):
        return _matches_of_pattern(page.root, selector[1:-1].lower())
    found = matches(page.tree, selector)
    if found is None:
        page.warnings.append(f"{option}: {selector[:100]!r} is not a CSS selector, so it has no effect.")
    return found or []


def _matches_of_pattern(root: LexborNode, part: str) -> list[LexborNode]:
    """Return the elements whose name or attributes contain a text, whatever its case."""
    found = []
    for node in root.traverse():
        if node.is_element_node:
            words = (node.tag or "", *(f'{name}="{value or ""}"' for name, value in node.attributes.items()))
            if any(part in word.lower() for word in words):
                found.append(node)
    return found


def _remove(root: LexborNode, nodes: list[LexborNode]) -> None:
    # From the end: an inner element comes after its outer one, and must not be touched once that is gone.
    kept = root.mem_id
    above = set()
    parent = root.parent
    while parent is not None:
        above.add(parent.mem_id)
        parent = parent.parent
    for node in reversed(nodes):
        if node.mem_id != kept and node.mem_id not in above:
            node.decompose()


def _keep_only(page: CleanPage, selectors: list[str]) -> None:
    """Replace the content by a copy of each match, in the order of the selectors."""
    chosen = page.tree.create_node("div")
    size = 0
    for selector in selectors[:_MOST_SELECTORS]:
        for node in _matches(page, selector, "includeTags"):
            size += len(node.html or "")
            if size > _MOST_COPIED:
                page.warnings.append(
                    "includeTags: too many of the elements are inside one another, so not all were kept."
                )
                break
            chosen.insert_child(node)
    for child in list(page.root.iter(include_text=True)):
        child.decompose()
    page.root.insert_child(chosen, move=True)


def _remove_around(page: CleanPage) -> None:
    kept: set[int] = set()
    for main in page.root.css(_MAIN):
        outer: LexborNode | None = main
        while outer is not None and outer.mem_id not in kept:
            kept.add(outer.mem_id)
            outer = outer.parent
    _remove(page.root, [node for node in page.root.css(_AROUND) if node.mem_id not in kept])


def _choose_source(image: LexborNode, resolver: Resolver) -> None:
    attributes = image.attributes
    source = largest_source(attributes)
    if source and (absolute := resolver.resolve(source)) != attributes.get("src"):
        image.attrs["src"] = absolute


def _absolute_links(root: LexborNode, resolver: Resolver) -> list[str]:
    links: dict[str, None] = {}
    for node in root.css("a[href]"):
        href = (node.attributes.get("href") or "").strip()
        if not href or href == "#":
            continue
        absolute = resolver.resolve(href)
        if absolute != node.attributes.get("href"):
            node.attrs["href"] = absolute
        if not href.startswith("#") and not absolute.lower().startswith(("javascript:", "data:", "blob:")):
            links.setdefault(without_fragment(absolute))
    links.pop("", None)
    return list(links)


def without_skip_link(markdown: str) -> str:
    """Return Markdown without the link that jumps over a page's navigation."""
    return _SKIP.sub("", markdown) if "kip to" in markdown or "KIP TO" in markdown else markdown
