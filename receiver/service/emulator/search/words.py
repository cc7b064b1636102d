"""Texts as the index takes them, so that pages and queries have the same words."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import datetime
from urllib.parse import SplitResult

from receiver.service.emulator.fetching.web_urls import host_of

BREAK = "\u200b"
"""Stands after each character of a script without spaces: to the index it ends a word, to readers it is nothing."""
_SPACELESS = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])"
)
_BROKEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u200b-\u200f\u2060\ufeff]")
_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_MONTHS = 24
EVERY = "every"
"""The mark that all pages have."""


def indexed(text: str) -> str:
    """Return a text with its words told apart, also those of Chinese, Japanese, Korean, Thai."""
    return _SPACELESS.sub(rf"\1{BREAK}", unicodedata.normalize("NFKC", _BROKEN.sub("", text)))


def shown(text: str) -> str:
    """Return an indexed text as people read it."""
    return text.replace(BREAK, "")


def folded(text: str) -> str:
    """Return a text for comparisons: without case, accents and breaks."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", shown(text).casefold()))


def words_in(text: str) -> list[str]:
    """Return the words of a text, folded."""
    return _WORD.findall(folded(text))


def words_of_url(parts: SplitResult) -> str:
    """Return the words in an address: `docs acme test guide install`."""
    text = f"{host_of(parts).removeprefix('www.')} {parts.path} {parts.query}"
    return " ".join(_WORD.findall(text))[:500]


def mark(kind: str, value: str) -> str:
    """Return the word in the index that stands for a property of pages, such as their host."""
    return "m" + hashlib.blake2b(f"{kind}:{value}".encode("utf-8", "replace"), digest_size=9).hexdigest() + "q"


def host_names(host: str) -> Iterator[str]:
    """Yield a host and the domains it lies in: `docs.acme.test`, `acme.test`, `test`."""
    labels = host.removeprefix("www.").split(".")
    return (".".join(labels[at:]) for at in range(min(len(labels), 10)))


def month_of(moment: datetime) -> str:
    """Return the month of a moment, for a mark."""
    return f"{moment:%Y-%m}"


def months_between(first: datetime, last: datetime) -> list[str] | None:
    """Return the months of a period; None if there are too many."""
    start, end = first.year * 12 + first.month - 1, last.year * 12 + last.month - 1
    if end - start >= _MONTHS:
        return None
    return [f"{month // 12:04}-{month % 12 + 1:02}" for month in range(start, end + 1)]


def any_of(words: Iterable[str]) -> str:
    """Return the part of a query that wants one of some words."""
    return "(" + " OR ".join(quoted(word) for word in words) + ")"


def quoted(text: str) -> str:
    """Return a text as a phrase of a query."""
    return '"' + indexed(text).replace('"', '""') + '"'
