"""What users read: the README and the pages of the guide, and the blocks in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
GUIDE = ROOT / "receiver" / "guide"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (README, *sorted(GUIDE.glob("*.md")))}
"""Each page by its file name, without the parts that are made from the code."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str, *names: str) -> list[tuple[str, str]]:
    """Return the blocks of a language in these pages, in all pages by default, each with the name of its page."""
    return [
        (name, block)
        for name in names or PAGES
        for found, block in _BLOCK.findall(PAGES[name])
        if found == language
    ]


def languages() -> set[str]:
    """Return the languages of all blocks; an empty text for a block that names none."""
    return {found for text in PAGES.values() for found, _ in _BLOCK.findall(text)}


def without_blocks(text: str) -> str:
    """Return a page without its blocks, which may have lines like headings."""
    return _BLOCK.sub("", text)


def headings(text: str) -> list[str]:
    """Return the headings of a page."""
    return re.findall(r"^#+ (.+)$", without_blocks(text), re.MULTILINE)


def section(heading: str, language: str = "python") -> str:
    """Return the first block of this language below a heading of the guide, before the next heading."""
    for name, text in PAGES.items():
        below = text.partition(f"# {heading}\n")[2]
        if name != README.name and below:
            found = re.search(rf"^```{language}\n(.*?)^```$", below.split("\n#")[0], re.DOTALL | re.MULTILINE)
            if found:
                return found[1]
    raise AssertionError(f"no block under {heading}")
