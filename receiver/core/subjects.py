"""What an event is about, and the words to find it by, read from its body.

The subject is the URL of a page, or else a title, a check or the job; only the few values needed for it are built.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from receiver.core.envelope import NotJson, load_json, strict_copy
from receiver.core.jobs import ends_job

MAX_SUBJECT_BODY = 1024 * 1024
"""A listing does not read a longer body: it says less about that event instead of taking long."""
MAX_SUBJECT_LENGTH = 2_000
"""Characters of a URL or a text."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about. `url` is that of its page; `text` is the URL, or what names the event for people."""

    url: str | None = None
    text: str | None = None


class _Metadata(msgspec.Struct, gc=False):
    sourceURL: msgspec.Raw = msgspec.Raw()  # noqa: N815 - the service's own name
    url: msgspec.Raw = msgspec.Raw()
    title: msgspec.Raw = msgspec.Raw()


class _Item(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None
    url: msgspec.Raw = msgspec.Raw()
    source: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    action: msgspec.Raw = msgspec.Raw()
    title: msgspec.Raw = msgspec.Raw()
    summary: msgspec.Raw = msgspec.Raw()
    monitorId: msgspec.Raw = msgspec.Raw()  # noqa: N815 - the service's own name


class _Body(msgspec.Struct, gc=False):
    data: list[_Item] | _Item | None = None
    error: msgspec.Raw = msgspec.Raw()


class _Input(msgspec.Struct, gc=False):
    url: msgspec.Raw = msgspec.Raw()


_BODY = msgspec.json.Decoder(_Body)
_INPUT = msgspec.json.Decoder(_Input)
_COUNTS = msgspec.json.Decoder(dict[str, int])
_TEXT = msgspec.json.Decoder(str)
_TEXTS = msgspec.json.Decoder(list[str])
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def subject_of(event_type: str, job_id: str | None, body: bytes) -> Subject:
    """Return what an event is about. An unreadable body gives an empty subject, not an error."""
    content = _body(body)
    items = content.data if isinstance(content.data, list) else [content.data]
    item = (items[0] if items else None) or _Item()
    error = _text(content.error)
    if ends_job(event_type):
        return Subject(text=_end(job_id, _check(item), error))
    metadata = item.metadata or _Metadata()
    given: _Input = _decoded(_INPUT, item.input) or _Input()
    # The requested URL comes first, as in `Document.url`.
    url = _first_text(metadata.sourceURL, metadata.url, item.url, item.source, given.url)
    named = url or _first_text(metadata.title, item.title, item.action) or error
    if named is None and event_type.endswith(".started") and job_id:
        named = f"start of job {job_id}"
    return Subject(url, named)


def _body(body: bytes) -> _Body:
    """Return the parts of a body. One that is not strict JSON is mended in a copy, as `read_fields` does."""
    try:
        return _BODY.decode(body)
    except _UNREADABLE:
        return _decoded(_BODY, _strict(body)) or _Body()


def _strict(body: bytes) -> bytearray | None:
    try:
        return strict_copy(body)
    except (NotJson, UnicodeDecodeError):
        return None


def _decoded(decoder: "msgspec.json.Decoder[Any]", raw: Any) -> Any:
    """Return a decoded value, None if it is absent or of another kind."""
    if not raw:
        return None
    try:
        return decoder.decode(raw)
    except _UNREADABLE:
        return None


def _text(raw: msgspec.Raw) -> str | None:
    """Return a text that is not blank, or the first text of a list."""
    found = _decoded(_TEXT, raw) or next(iter(_decoded(_TEXTS, raw) or ()), "")
    return found.strip()[:MAX_SUBJECT_LENGTH] or None


def _first_text(*raws: msgspec.Raw) -> str | None:
    return next((found for raw in raws if (found := _text(raw))), None)


def _end(job_id: str | None, check: str | None, error: str | None) -> str | None:
    """Return the subject of a job's last event: what a check found, or which job has ended, and the error."""
    parts = (check or (f"end of job {job_id}" if job_id else None), error)
    return ": ".join(part for part in parts if part) or None


def _check(item: _Item) -> str | None:
    """Return what a check of a monitor found: `2 changed, 1 new; monitor 019f…`."""
    monitor = _text(item.monitorId)
    if monitor is None:
        return None
    counts = _decoded(_COUNTS, item.summary) or {}
    found = ", ".join(f"{number} {name}" for name, number in counts.items() if number and name != "totalPages")
    return f"{found}; monitor {monitor}" if found else f"monitor {monitor}"


MAX_ITEMS = 100
MAX_TEXT_LENGTH = 2_000
_QUERY = re.compile(r'"([^"]*)("\*?|$)|([^\s"]+)')
_WORD = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True)
class Texts:
    """The words of a delivery's URLs, titles and errors, with blanks between them.

    Two texts of a field are not separated: a phrase may reach from one into the next.
    """

    url: str = ""
    title: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must be adjacent. With `prefix` the last one may be the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool

    def is_in(self, text: str) -> bool:
        """Return whether a text of words, with blanks between them, contains this phrase."""
        return f" {' '.join(self.words)}{'' if self.prefix else ' '}" in f" {text} "


@dataclass(frozen=True, slots=True)
class SearchReach:
    """How far the index reaches: how many deliveries are not in it yet, and when the last one in it arrived."""

    behind: int
    through: datetime | None


def words(text: str) -> Sequence[str]:
    """Return the words of a text: runs of letters and digits, in lower case and without accents."""
    if text.isascii():
        return _WORD.findall(text.lower())
    plain = unicodedata.normalize("NFKD", text.casefold())
    kept = (char for char in plain if not unicodedata.combining(char))
    return "".join([char if char.isalnum() else " " for char in kept]).split()


def parse_query(written: str) -> Sequence[Phrase]:
    """Return the phrases of a query, which must all occur: words, phrases in quotes, and beginnings with a `*`.

    A text without blanks, such as a URL, is one phrase. Raises ValueError if there is no word.
    """
    phrases = [
        Phrase(tuple(found), prefix=(plain or end).endswith("*"))
        for quoted, end, plain in _QUERY.findall(written)
        if (found := words(quoted or plain))
    ]
    if not phrases:
        raise ValueError(
            f'there is no word in {written!r}: write words, "a phrase", or the beginning of one with *'
        )
    return phrases


def texts_of(body: bytes) -> Texts:
    """Return the words of a delivery; none if its body is unreadable."""
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
    return Texts(*(" ".join([one for text in found for one in words(text)]) for found in (urls, titles, errors)))


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
