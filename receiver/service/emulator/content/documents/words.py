"""What is said between the process that reads a document and the one that asked for it."""

from dataclasses import asdict, dataclass, field
from typing import Any

MAX_TEXT = 20_000_000
"""Characters of a document's text. What is beyond is left out, with a warning."""


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


class UnreadableDocument(Exception):
    """A document cannot be read. `code` is the service's code."""

    def __init__(self, text: str, code: str = "SCRAPE_ALL_ENGINES_FAILED") -> None:
        super().__init__(text)
        self.code = code


@dataclass(slots=True)
class DocumentText:
    """What a document holds."""

    html: str = ""
    """The text as a page."""
    pages: list[str] = field(default_factory=list)
    """Of a PDF: the text of each page that was read."""
    total: int = 0
    """Of a PDF: how many pages there are."""
    title: str = ""
    """From the properties of the file; empty without one."""
    warnings: list[str] = field(default_factory=list)
    """What was left out, and why."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return asdict(self)
