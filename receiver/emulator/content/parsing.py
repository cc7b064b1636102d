"""From text to a tree of elements, in bounded time and memory.

The parser of HTML5 is quadratic in three places: in the depth of the tree, in formatting elements that stay open
(each new paragraph gets copies of them all), and in the attributes of one element, so that a page of some kilobytes
can take gigabytes. Browsers limit the depth to 512, and so do we.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from operator import sub

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from receiver.emulator.failures import ScrapeFailed

DEEPEST = 512
MOST_TAGS = 3_000_000
_MOST_COPIES = 300_000
_MOST_OPEN = 16
_MOST_ROOTS = 2000
_HARMLESS = 20_000
"""A page shorter than this cannot take long."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAME = re.compile(r"<(/?[a-zA-Z][a-zA-Z0-9:-]*)")
_RAW = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</\1[^>]*>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>"'<]*)(?:"[^"]*+"|'[^']*+'|[^'"<>]++)*+>""")
_MANY_ATTRIBUTES = re.compile(r"""<[a-zA-Z](?:[^'">]*+(?:"[^"]*+"|'[^']*+')){2000,}|<[a-zA-Z][^'">]{20000,}""")
_FORMATTING = _names("b big code em font i s small strike strong tt u")
_FORMAT_TAGS = _FORMATTING | {f"/{name}" for name in _FORMATTING}
_FLAT = _names(
    # Void elements, and those whose start closes the one before.
    "area base br col embed hr img input link meta param source track wbr html head body"
    " p li dt dd td th tr tbody thead tfoot option optgroup colgroup caption rp rt"
)


class _Steps(dict[str, int]):
    """How each tag changes the depth."""

    def __missing__(self, tag: str) -> int:
        name = tag.lower()
        step = 0 if name.lstrip("/") in _FLAT else -1 if name.startswith("/") else 1
        if len(self) < 1000:
            self[tag] = step
        return step


_STEPS = _Steps()


def parse_html(text: str) -> LexborHTMLParser:
    """Return the tree of a page. Raises ScrapeFailed for a page that is too much for any parser."""
    if len(text) > _HARMLESS and not _is_harmless(text):
        text = _tamed(_RAW.sub("", text))
    # The events that it raises for changes of the tree would make a list of options quadratic.
    return LexborHTMLParser(text, options=LexborDocumentOptions.WO_EVENTS)


def content_root(tree: LexborHTMLParser) -> LexborNode:
    """Return the root of a page's content: its body, or else the whole page."""
    root = tree.body or tree.root
    if root is None:
        raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", "The page is empty.")
    return root


def _is_harmless(text: str) -> bool:
    if text.count("<") > MOST_TAGS:
        raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", f"The page has more than {MOST_TAGS:,} tags.")
    if _MANY_ATTRIBUTES.search(text):
        raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", "The page has an element with thousands of attributes.")
    return _is_flat(text) or _is_flat(_RAW.sub("", text))


def _is_flat(text: str) -> bool:
    tags = _NAME.findall(text)
    if _highest_rise([_STEPS[tag] for tag in tags]) > DEEPEST:
        return False
    counts = Counter(tags)
    if counts["body"] + counts["html"] > _MOST_ROOTS:
        # All their attributes go to one element.
        raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", "The page has thousands of body elements.")
    lowered = {tag: tag.lower() for tag in counts if tag.lower() in _FORMAT_TAGS}
    formats = [lowered[tag] for tag in tags if tag in lowered]
    still_open = sum(_highest_open(formats, name) for name in set(formats) & _FORMATTING)
    return still_open * len(tags) <= _MOST_COPIES or still_open <= _MOST_OPEN


def _highest_open(formats: list[str], name: str) -> int:
    """Return the most elements of a name that are open at one time, judging by their tags."""
    end = f"/{name}"
    steps = [1 if tag == name else -1 for tag in formats if tag in (name, end)]
    return _highest_rise(steps) if len(steps) > _MOST_OPEN else 0


def _highest_rise(steps: Iterable[int]) -> int:
    """Return the most that a sum rises above its lowest value so far; small results may be a little too high."""
    sums = list(accumulate(steps, initial=0))
    most = max(sums) - min(sums)
    return most if most <= _MOST_OPEN else int(max(map(sub, sums, accumulate(sums, min))))


def _tamed(text: str) -> str:
    """Return the text without the tags that would make the tree too deep, or its formatting too long-lived."""
    depth = 0
    formats: Counter[str] = Counter()

    def keep(found: re.Match[str]) -> str:
        nonlocal depth
        name = found[2].lower()
        opens = not found[1]
        if name in _FORMATTING:
            dropped = formats[name] >= _MOST_OPEN
            formats[name] = max(0, formats[name] + (1 if opens else -1))
            dropped = dropped and formats[name] >= _MOST_OPEN
        else:
            dropped = False
        step = _STEPS[found[1] + name]
        before, depth = depth, max(0, depth + step)
        return "" if dropped or max(before, depth) > DEEPEST else found[0]

    tamed = _TAG.sub(keep, text)
    if not _is_flat(tamed):
        raise ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", "The elements of the page are nested too deep.")
    return tamed


TEXT = 2
"""The parser's number for a piece of text. Numbers compare faster than names."""

_DOCUMENT = LexborHTMLParser("")


def number_of(name: str) -> int:
    """Return the parser's number for an element of HTML, which is the same for every document of this process."""
    return int(_DOCUMENT.create_node(name).tag_id)


def numbers_of(names: str) -> frozenset[int]:
    """Return the parser's numbers for names with spaces between them."""
    return frozenset(map(number_of, names.split()))
