"""The words of a delivery that can be found, and queries for them."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from receiver.core.lenient_json import NotJson, load_json

MAX_ITEMS = 100
MAX_TEXT_LENGTH = 2_000
_QUERY = re.compile(r'"([^"]*)("\*?|$)|([^\s"]+)')
_WORD = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True)
class Texts:
    """The words of a delivery's URLs, titles and errors, with blanks between them.

    Nothing separates two texts of a field, so a phrase may reach from one text into the next.
    """

    url: str = ""
    title: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must stand side by side. With `prefix` the last one may be the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool

    def is_in(self, text: str) -> bool:
        """Tell whether this phrase stands in a text of words with blanks between them."""
        return f" {' '.join(self.words)}{'' if self.prefix else ' '}" in f" {text} "


@dataclass(frozen=True, slots=True)
class SearchReach:
    """How far the index reaches: how many deliveries are not in it yet, and when the last one in it arrived."""

    behind: int
    through: datetime | None


def words(text: str) -> Sequence[str]:
    """Return the words of a text: runs of letters and digits, in small letters and without accents."""
    if text.isascii():
        return _WORD.findall(text.lower())
    plain = unicodedata.normalize("NFKD", text.casefold())
    kept = (char for char in plain if not unicodedata.combining(char))
    return "".join([char if char.isalnum() else " " for char in kept]).split()


def parse_query(written: str) -> Sequence[Phrase]:
    """Return the phrases of a query, which must all occur: words, phrases in quotes, and beginnings with a `*`.

    A text without blanks, such as a URL, is one phrase. Raises ValueError if there is no word.
    """
    phrases = tuple(_phrases(written))
    if not phrases:
        raise ValueError(
            f'there is no word in {written!r}: write words, "a phrase", or the beginning of one with *'
        )
    return phrases


def texts_of(body: bytes) -> Texts:
    """Return the words of a delivery, none if its body is not readable."""
    try:
        content = load_json(body)
    except NotJson:
        return Texts()
    if not isinstance(content, dict):
        return Texts()
    urls: dict[str, None] = {}
    titles: dict[str, None] = {}
    errors: dict[str, None] = {}
    _keep(errors, content.get("error"))
    for item in _items(content.get("data")):
        metadata = item.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        _keep(urls, metadata.get("sourceURL"), metadata.get("url"), item.get("url"), item.get("source"))
        _keep(titles, metadata.get("title"))
        _keep(errors, item.get("error"), metadata.get("error"))
    return Texts(*(_joined(found) for found in (urls, titles, errors)))


def _phrases(written: str) -> Iterator[Phrase]:
    for quoted, end, plain in _QUERY.findall(written):
        if found := words(quoted or plain):
            yield Phrase(tuple(found), prefix=(plain or end).endswith("*"))


def _items(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the first items of an event: its documents, and the pages inside an old check."""
    for item in (data if isinstance(data, list) else [data])[:MAX_ITEMS]:
        if not isinstance(item, dict):
            continue
        yield item
        content, pages = item.get("content"), item.get("pages")
        if isinstance(content, dict):
            yield content
        if isinstance(pages, list):
            yield from (page for page in pages[:MAX_ITEMS] if isinstance(page, dict))


def _keep(found: dict[str, None], *values: Any) -> None:
    for value in values:
        texts = value[:MAX_ITEMS] if isinstance(value, list) else [value]
        found.update((text[:MAX_TEXT_LENGTH], None) for text in texts if isinstance(text, str))


def _joined(found: dict[str, None]) -> str:
    return " ".join([word for text in found for word in words(text)])
