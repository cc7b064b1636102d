"""The text of code. Pages with syntax highlighting spread it over many elements, with line numbers beside."""

from selectolax.lexbor import LexborNode

from receiver.service.emulator.content.tags import TEXT, number_of, numbers_of

_LINES = numbers_of("p div li tr table thead tbody tfoot section article blockquote pre h1 h2 h3 h4 h5 h6")
"""Elements that end a line."""
_NEVER = numbers_of("script style textarea")
_BR, _CODE = number_of("br"), number_of("code")


def code_text(root: LexborNode) -> str:
    """Return the text of all that is in an element, without line numbers. Newlines are where lines end."""
    parts: list[str] = []
    opened: list[LexborNode] = []
    node = root.first_child
    while True:
        if node is None:
            if not opened:
                return "".join(parts)
            done = opened.pop()
            if done.tag_id in _LINES:
                parts.append("\n")
            node = done.next
        elif (number := node.tag_id) == TEXT:
            parts.append(node.text_content or "")
            node = node.next
        elif number in _NEVER or not node.is_element_node or _numbers_lines(node):
            node = node.next
        else:
            if number == _BR:
                parts.append("\n")
            opened.append(node)
            node = node.first_child


def language_of(pre: LexborNode) -> str:
    """Return the language that the first `code` of a block names in its classes, else the block itself."""
    first = next((inner for inner in pre.traverse() if inner.tag_id == _CODE), None)
    return (_language(first) if first is not None else "") or _language(pre)


def _language(node: LexborNode) -> str:
    for name in (node.attributes.get("class") or "").lower().split():
        for prefix in ("language-", "lang-"):
            if name.startswith(prefix):
                return name.removeprefix(prefix)
    return ""


def _numbers_lines(node: LexborNode) -> bool:
    classes = (node.attributes.get("class") or "").lower()
    return "gutter" in classes or "line-numbers" in classes
