"""How deep the items of a list stand, and what stands before each."""

from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from receiver.emulator.content.tags import TEXT, number_of, numbers_of

_LI, _OL = number_of("li"), number_of("ol")
_LISTS = numbers_of("ul ol")
_STEPS = 200
"""How far an item is searched for text of its own, before it counts as having some."""


@dataclass(slots=True)
class ListLevel:
    """One open list."""

    width: int
    """The width of the prefix that its items have: 0 if the first item only holds another list."""
    before: int
    """The widths of all lists around it."""
    ordered: bool
    """Whether its items have numbers."""
    start: int = 1
    """The number of the first."""
    digits: int = 1
    """How many digits each number has at least."""
    places: dict[int, int] = field(default_factory=dict)
    """The place of each element of an ordered list, by its address in memory."""

    def prefix(self, item: LexborNode) -> str:
        """Return what stands before an item."""
        if only_wraps_list(item):
            return ""
        return self.number(item) if self.ordered else "- "

    def number(self, item: LexborNode) -> str:
        """Return the number before an item; an element that is no item counts as well."""
        return f"{self.start + self.places[item.mem_id]:0{self.digits}d}. "


def open_list(node: LexborNode, outer: ListLevel | None) -> ListLevel:
    """Return what is to be known of a list before its items are written."""
    before = outer.before + outer.width if outer is not None else 0
    children = [child for child in node.iter() if child.is_element_node]
    first = next((child for child in children if child.tag_id == _LI), None)
    level = ListLevel(0, before, ordered=node.tag_id == _OL)
    if level.ordered:
        level.start, level.digits = _start(node), len(str(len(children)))
        level.places = {child.mem_id: place for place, child in enumerate(children)}
    level.width = len(level.prefix(first)) if first is not None else 0
    return level


def only_wraps_list(item: LexborNode) -> bool:
    """Whether an item has a list and no text of its own."""
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


def _start(node: LexborNode) -> int:
    value = (node.attributes.get("start") or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 1
