"""A walk over a tree with a stack of its own, and the pieces of Markdown that it writes.

What an element writes is a list of pieces. Elements that change what is inside them put their pieces together when
they end. Since that copies the text inside, only so many of them count inside one another; the others let their
text through. So the work stays linear in the size of the page.
"""

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from selectolax.lexbor import LexborNode

from receiver.emulator.content.markdown import texts
from receiver.emulator.content.markdown.lists import ListLevel
from receiver.emulator.content.markdown.tables import TableFrame
from receiver.emulator.content.tags import TEXT, number_of, numbers_of

DEEPEST = 40
"""How many elements inside one another may change the text inside them."""

FEWEST_ADDED = 4_000
"""Characters that stand before the lines of lists, and in empty headings of tables, in any case."""
ADDED_PER_CHARACTER = 4
"""More of them for each character of the page. Only lists and tables that are made for it need more."""
_STEPS = 200
"""How many texts and comments behind a text are searched for a list."""

_LISTS, _LISTISH = numbers_of("ul ol"), numbers_of("ul ol li")

Leave = Callable[[Any, LexborNode, int], None]
"""Ends an element; it gets the element, and where its pieces begin."""
Enter = Callable[[Any, LexborNode, int], LexborNode | None]
"""Begins an element; it gets the element and its number, and returns where to go on."""


class TreeWalk:
    """The state of a walk. A subclass has the rules."""

    rules: ClassVar[Mapping[int, Enter]] = {}
    """By the number of an element. Elements without a rule let their content through."""

    def __init__(self, *, size: int, base64_images: bool = False, frames: int = 0) -> None:
        """`size` is the characters of the page: what lists and tables add to its text is not much more."""
        self._added_left = FEWEST_ADDED + ADDED_PER_CHARACTER * size
        self._base64_images = base64_images
        self._frames = frames
        self._out: list[str] = []
        self._open: list[tuple[LexborNode, int, Leave | None, int, bool]] = []
        self._trimming = False
        """Whether an element further out takes the spaces off the beginnings of lines."""
        self._joins = self._links = self._headings = 0
        self._lists: list[ListLevel] = []
        self._tables: list[TableFrame] = []
        self._cells: list[int] = []
        """For each open cell, how many tables had been written when it began."""
        self._tables_written = 0

    def write(self, root: LexborNode) -> str:
        """Return the Markdown of what is in an element."""
        self._walk(root.first_child)
        return texts.finish("".join(self._out))

    def _walk(self, node: LexborNode | None) -> None:
        out, opened, rules = self._out, self._open, self.rules
        while True:
            if node is None:
                if not opened:
                    return
                node, _, leave, mark, self._trimming = opened.pop()
                if leave is not None:
                    leave(self, node, mark)
                node = node.next
            elif (number := node.tag_id) == TEXT:
                text = node.text_content
                if text and not text.isspace():
                    out.append(self._beside_list(node, texts.plain(text)) if self._lists else texts.plain(text))
                node = node.next
            elif (enter := rules.get(number)) is not None:
                node = enter(self, node, number)
            elif (child := node.first_child) is not None:
                opened.append((node, number, None, 0, self._trimming))
                node = child
            else:
                node = node.next

    def _parent(self) -> int:
        """Return the number of the element around the one that is entered or left; 0 at the top."""
        return self._open[-1][1] if self._open else 0

    def _into(
        self, node: LexborNode, number: int, leave: Leave | None, mark: int | None = None
    ) -> LexborNode | None:
        """Open an element; return where to go on."""
        place = len(self._out) if mark is None else mark
        self._open.append((node, number, leave, place, self._trimming))
        return node.first_child

    def _joining(self, node: LexborNode, number: int, leave: Leave) -> LexborNode | None:
        """Open an element that puts its pieces together; deep inside others it just lets them through."""
        if self._joins >= DEEPEST:
            return self._into(node, number, None)
        self._joins += 1
        return self._into(node, number, leave)

    def _take(self, mark: int) -> str:
        """Take off and return what was written since a mark. Each element that joins calls this once."""
        self._joins -= 1
        text = "".join(self._out[mark:])
        del self._out[mark:]
        return text

    def _beside_list(self, node: LexborNode, text: str) -> str:
        """Return the text without spaces at its ends if a list follows it."""
        if self._parent() not in _LISTISH:
            return text
        after = node.next
        for _ in range(_STEPS):
            if after is None or after.is_element_node:
                break
            after = after.next
        if after is None or after.tag_id not in _LISTS:
            return text
        # Spaces before it are kept after an element: they part it from that.
        return text.rstrip(" ") if node.prev is not None else text.strip(" ")


# FOLDED: Whether an inline element needs a space beside it, so that its delimiters are seen. // Only the nearest
# text matters. The search for it ends after a number of steps, since a page may have a million empty elements
# between two links; beyond it there counts as nothing.
_NEIGHBOUR_STEPS = 16
_BR = number_of("br")
_TRIMMED = numbers_of("a strong b i em del s strike code")
"""Elements whose own text is trimmed, and that see to the space on their left themselves."""
_INLINE = _TRIMMED | numbers_of(
    "span img abbr cite dfn kbd samp tt var q small big sub sup u mark label button time"
)


def spaced(node: LexborNode, text: str) -> str:
    """Return the Markdown of an inline element, with a space on a side where other text touches it."""
    before, after = _last_before(node), _first_after(node)
    left = " " if before and not before.isspace() else ""
    right = " " if after and not after.isspace() and unicodedata.category(after)[0] != "P" else ""
    return f"{left}{text}{right}"


def spaced_code(node: LexborNode, text: str) -> str:
    """Return code within a line, with the white space that the page has between it and an inline element.

    Without it two spans of code would touch, and be one.
    """
    before, after = node.prev, node.next
    left = " " if _only_space(before) and _is_inline(before.prev if before is not None else None) else ""
    beyond = after.next if after is not None and _only_space(after) else None
    right = " " if _is_inline(beyond) and beyond is not None and beyond.tag_id not in _TRIMMED else ""
    return f"{left}{text}{right}"


def _only_space(node: LexborNode | None) -> bool:
    return node is not None and node.tag_id == TEXT and (node.text_content or "").isspace()


def _is_inline(node: LexborNode | None) -> bool:
    return node is not None and node.tag_id in _INLINE


def _last_before(node: LexborNode) -> str:
    """Return the last character of the nearest text on the left; empty without one."""
    sibling = node.prev
    for _ in range(_NEIGHBOUR_STEPS):
        if sibling is None:
            return ""
        number = sibling.tag_id
        if number == TEXT:
            text = sibling.text_content or ""
            if text and not text.isspace():
                return text[-1]
        elif number == _BR:
            return "\n"
        elif (sibling.first_child is not None) and (found := _last_within(sibling)):
            return "x" if number in _TRIMMED else found
        sibling = sibling.prev
    return ""


def _first_after(node: LexborNode) -> str:
    """Return the first character of the nearest text on the right; empty without one."""
    sibling = node.next
    for _ in range(_NEIGHBOUR_STEPS):
        if sibling is None:
            return ""
        number = sibling.tag_id
        if number == TEXT:
            text = sibling.text_content or ""
            if text and not text.isspace():
                return text[0]
        elif number == _BR:
            return "\n"
        elif (sibling.first_child is not None) and (found := _first_within(sibling)):
            return " " if number in _TRIMMED else found
        sibling = sibling.next
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
    """Return the node before in reversed document order, up to the element with the address `end`."""
    if inner.last_child is not None:
        return inner.last_child
    current: LexborNode | None = inner
    while current is not None and current.mem_id != end:
        if current.prev is not None:
            return current.prev
        current = current.parent
    return None
