"""Whether an inline element needs a space beside it, so that its delimiters are seen.

Only the nearest text matters. The search for it ends after a number of steps, since a page may have a million empty
elements between two links; beyond it there counts as nothing.
"""

import unicodedata

from selectolax.lexbor import LexborNode

from receiver.service.emulator.content.tags import TEXT, number_of, numbers_of

_STEPS = 16
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
    for _ in range(_STEPS):
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
    for _ in range(_STEPS):
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
        if step >= _STEPS:
            break
    return ""


def _last_within(node: LexborNode) -> str:
    """Return the last character of an element's text; empty if there is only white space."""
    last, inner, end = "", node.last_child, node.mem_id
    for _ in range(_STEPS):
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
