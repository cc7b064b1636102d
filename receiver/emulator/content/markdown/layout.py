"""What surrounds texts: the prefixes of items, the borders of tables, the spaces beside inline elements."""

import unicodedata
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from receiver.emulator.content.parsing import TEXT, number_of, numbers_of

_LI, _OL = number_of("li"), number_of("ol")
_LISTS = numbers_of("ul ol")
_STEPS = 200
"""How far an item is searched for text of its own; beyond that it counts as having some."""


@dataclass(slots=True)
class ListLevel:
    """One open list."""

    width: int
    """The width of its items' prefix; 0 if the first item only holds another list."""
    before: int
    """The widths of all lists around it."""
    ordered: bool
    start: int = 1
    digits: int = 1
    """The fewest digits of a number."""
    places: dict[int, int] = field(default_factory=dict)
    """The place of each element of an ordered list, by its address in memory."""

    def prefix(self, item: LexborNode) -> str:
        """Return the text before an item: its number, or a dash."""
        if only_wraps_list(item):
            return ""
        return self.number(item) if self.ordered else "- "

    def number(self, item: LexborNode) -> str:
        """Return the number before an item; elements that are not items count too."""
        return f"{self.start + self.places[item.mem_id]:0{self.digits}d}. "


def open_list(node: LexborNode, outer: ListLevel | None) -> ListLevel:
    """Return the layout of a list, which its items need before they are written."""
    before = outer.before + outer.width if outer is not None else 0
    children = [child for child in node.iter() if child.is_element_node]
    first = next((child for child in children if child.tag_id == _LI), None)
    level = ListLevel(0, before, ordered=node.tag_id == _OL)
    if level.ordered:
        start = (node.attributes.get("start") or "").strip()
        level.start = int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 1
        level.digits = len(str(len(children)))
        level.places = {child.mem_id: place for place, child in enumerate(children)}
    level.width = len(level.prefix(first)) if first is not None else 0
    return level


def only_wraps_list(item: LexborNode) -> bool:
    """Return whether an item has a list and no text of its own."""
    has_list = False
    steps = 0
    child = item.first_child
    while child is not None:
        if child.tag_id in _LISTS:
            has_list = True
        elif child.tag_id == TEXT:
            if (child.text_content or "").strip():
                return False
        else:
            for inner in child.traverse(include_text=True):
                steps += 1
                if steps > _STEPS or (inner.tag_id == TEXT and (inner.text_content or "").strip()):
                    return False
        child = child.next
    return has_list


_TABLE, _THEAD, _TBODY, _TH = map(number_of, ("table", "thead", "tbody", "th"))
_HEAD_CELL = 12
"""Characters of a cell in an empty heading."""
_BORDERS = {"left": ":--", "right": "--:", "center": ":-:"}


@dataclass(slots=True)
class TableFrame:
    """One open table."""

    has_heading: bool = False
    """Whether it, or a table in it, has a `thead` or a `th`."""
    widest: int = 0
    """The most cells of a row."""
    captions: list[str] = field(default_factory=list)
    """They follow the table."""

    def head(self, most: int) -> str:
        """Return the empty heading that makes plain rows a table, of at most about `most` characters."""
        width = min(self.widest, most // _HEAD_CELL)
        if self.has_heading or not width:
            return ""
        return "|" + "     |" * width + "\n|" + " --- |" * width

    def take_in(self, inner: "TableFrame") -> None:
        """Count what a table inside this one has: the service does not distinguish them."""
        self.has_heading |= inner.has_heading
        self.widest = max(self.widest, inner.widest)


def border_below(row: LexborNode) -> str:
    """Return the line below a row that is a heading; empty for other rows."""
    cells = [cell for cell in row.iter() if cell.is_element_node]
    if not _is_heading(row, cells):
        return ""
    borders = [_BORDERS.get(cell.attributes.get("align") or "", "---") for cell in cells]
    return "\n| " + " | ".join(borders) + " |" if borders else ""


def first_child_element(node: LexborNode) -> bool:
    """Return whether a node is the first element of its parent."""
    before = node.prev
    while before is not None and not before.is_element_node:
        before = before.prev
    return before is None


def _is_heading(row: LexborNode, cells: list[LexborNode]) -> bool:
    parent = row.parent
    if parent is None or parent.tag_id == _THEAD:
        return parent is not None
    if any(cell.tag_id != _TH for cell in cells) or not first_child_element(row):
        return False
    return parent.tag_id == _TABLE or (parent.tag_id == _TBODY and _first_body(parent))


def _first_body(body: LexborNode) -> bool:
    """Return whether a `tbody` is the first of its table and follows no `thead`."""
    before = body.prev
    while before is not None and before.tag_id not in {_THEAD, _TBODY}:
        before = before.prev
    return before is None


_NEIGHBOUR_STEPS = 16
"""How far the nearest text is searched for, since a page may have a million empty elements between two links."""
_BR = number_of("br")
_TRIMMED = numbers_of("a strong b i em del s strike code")
"""Elements whose own text is trimmed, and that add the space on their left themselves."""
_INLINE = _TRIMMED | numbers_of(
    "span img abbr cite dfn kbd samp tt var q small big sub sup u mark label button time"
)


def spaced(node: LexborNode, text: str) -> str:
    """Return the Markdown of an inline element, with a space where other text would touch its delimiters."""
    before, after = _neighbour(node, is_before=True), _neighbour(node, is_before=False)
    left = " " if before and not before.isspace() else ""
    right = " " if after and not after.isspace() and unicodedata.category(after)[0] != "P" else ""
    return f"{left}{text}{right}"


def spaced_code(node: LexborNode, text: str) -> str:
    """Return code within a line, with the page's white space towards inline elements: two spans must not touch."""
    before, after = node.prev, node.next
    left = " " if _only_space(before) and _is_inline(before.prev if before is not None else None) else ""
    beyond = after.next if after is not None and _only_space(after) else None
    right = " " if _is_inline(beyond) and beyond is not None and beyond.tag_id not in _TRIMMED else ""
    return f"{left}{text}{right}"


def _only_space(node: LexborNode | None) -> bool:
    return node is not None and node.tag_id == TEXT and (node.text_content or "").isspace()


def _is_inline(node: LexborNode | None) -> bool:
    return node is not None and node.tag_id in _INLINE


def _neighbour(node: LexborNode, *, is_before: bool) -> str:
    """Return the nearest character of text on one side of a node; empty without one."""
    sibling = node.prev if is_before else node.next
    for _ in range(_NEIGHBOUR_STEPS):
        if sibling is None:
            return ""
        number = sibling.tag_id
        if number == TEXT:
            text = sibling.text_content or ""
            if text and not text.isspace():
                return text[-1 if is_before else 0]
        elif number == _BR:
            return "\n"
        elif sibling.first_child is not None and (
            found := _last_within(sibling) if is_before else _first_within(sibling)
        ):
            return found if number not in _TRIMMED else "x" if is_before else " "
        sibling = sibling.prev if is_before else sibling.next
    return ""


def _first_within(node: LexborNode) -> str:
    """Return the first character of an element's text; empty if there is only white space."""
    first = ""
    for step, inner in enumerate(node.traverse(include_text=True)):
        if inner.tag_id == TEXT:
            text = inner.text_content or ""
            first = first or text[:1]
            if text and not text.isspace():
                return first
        if step >= _NEIGHBOUR_STEPS:
            break
    return ""


def _last_within(node: LexborNode) -> str:
    """Return the last character of an element's text; empty if there is only white space."""
    last, inner, end = "", node.last_child, node.mem_id
    for _ in range(_NEIGHBOUR_STEPS):
        if inner is None:
            return ""
        if inner.tag_id == TEXT:
            text = inner.text_content or ""
            last = last or text[-1:]
            if text and not text.isspace():
                return last
        inner = _one_back(inner, end)
    return ""


def _one_back(inner: LexborNode, end: int) -> LexborNode | None:
    """Return the previous node in document order, within the element with the address `end`."""
    if inner.last_child is not None:
        return inner.last_child
    current: LexborNode | None = inner
    while current is not None and current.mem_id != end:
        if current.prev is not None:
            return current.prev
        current = current.parent
    return None
