"""The numbers that the parser has for the names of elements. Numbers compare faster than names."""

from selectolax.lexbor import LexborHTMLParser

TEXT = 2
"""The number of a piece of text."""

_DOCUMENT = LexborHTMLParser("")


def number_of(name: str) -> int:
    """Return the parser's number for an element of HTML. It is the same in every document of this process."""
    return int(_DOCUMENT.create_node(name).tag_id)


def numbers_of(names: str) -> frozenset[int]:
    """Return the numbers for names with spaces between them."""
    return frozenset(map(number_of, names.split()))
