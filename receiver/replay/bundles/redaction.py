"""Redacts deliveries, so that a bundle can be added to a bug report.

Each character of these texts becomes the letter x: every text in a body (page texts, addresses, titles, errors,
values of metadata), and the values of all headers except those about content. Digits in extracted data become ones.
A body that is not JSON is hidden completely.

These stay: names of fields, other numbers, true, false and null, white space, the scheme of an address, ids,
moments, and the service's own words such as a page's `status`. So our models read a redacted body as they read the
original. The original cannot be restored, and redacting twice changes nothing more.
"""

import json
import re

from receiver.core.deliveries import Delivery
from receiver.core.envelope import PLAIN_ID, NotJson, load_json

_ENVELOPE = frozenset({"type", "id", "jobId", "webhookId"})
"""On the first level these stay if they look like ids."""
_EXTRACTED = frozenset(
    {
        *("json", "extract", "llm_extraction", "value", "previous", "current", "input", "sources", "snapshot"),
        *("blocks", "branding", "product", "menu"),
    }
)
"""Fields whose values come from a page, whatever their form. `data` below the first level is one too."""
_WORDS = frozenset(
    {
        *("new", "same", "changed", "removed", "added", "error", "visible", "hidden", "hit", "miss", "basic"),
        *("stealth", "enhanced", "auto", "completed", "partial", "failed", "high", "medium", "low", "add", "del"),
        "normal",
    }
)
_WORD_NAMES = frozenset(
    {"status", "changeStatus", "visibility", "cacheState", "proxyUsed", "confidence", "type", "mode"}
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")
_PLAIN_HEADERS = frozenset({"content-type", "content-length", "content-encoding", "accept", "accept-encoding"})
_SCHEME = re.compile(r"https?://")
_TOKEN = re.compile(r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")(?P<colon>\s*:)?|(?P<number>-?\d[-+.\w]*)|[\[\]{}]')


def redacted(delivery: Delivery) -> Delivery:
    """Return the delivery without the content of pages. Its id stays."""
    return delivery._replace(
        type=_plain(delivery.type) or "",
        job_id=_plain(delivery.job_id),
        webhook_id=_plain(delivery.webhook_id),
        headers=tuple(
            [(name, value if name in _PLAIN_HEADERS else _hidden(value)) for name, value in delivery.headers]
        ),
        body=redacted_body(delivery.body),
    )


def redacted_body(body: bytes) -> bytes:
    """Return a body with hidden texts; everything else stays byte for byte."""
    try:
        text = body.decode()
        load_json(body)
    except (UnicodeDecodeError, NotJson):
        return b"x" * len(body)
    if "\0" in text:  # JSON in UTF-16 or UTF-32, which can be valid UTF-8 too
        return b"x" * len(body)
    return _Hiding().hide(text).encode()


def _plain(text: str | None) -> str | None:
    return text if text is None or PLAIN_ID.fullmatch(text) else _hidden(text)


def _hidden(text: str) -> str:
    scheme = _SCHEME.match(text)
    kept = scheme[0] if scheme else ""
    return kept + "x" * (len(text) - len(kept))


class _Hiding:
    """Goes through the tokens of one JSON text (RFC 8259, section 2) and keeps track of the place."""

    def __init__(self) -> None:
        self._name = ""
        self._extracted = False
        """Whether the place is inside extracted data."""
        self._around: list[tuple[str, bool]] = []
        """Name and `_extracted` of each array and object around the place."""

    def hide(self, text: str) -> str:
        return _TOKEN.sub(self._stand_in, text)

    def _stand_in(self, token: re.Match[str]) -> str:
        if token["string"] is not None:
            return self._string(token)
        if token["number"] is not None:
            return re.sub(r"\d", "1", token[0]) if self._extracted else token[0]
        match token[0]:
            case "{" | "[":
                self._around.append((self._name, self._extracted))
            case "}" | "]":
                self._name, self._extracted = self._around.pop()
        return token[0]

    def _string(self, token: re.Match[str]) -> str:
        quoted = token["string"]
        value: str = json.loads(quoted) if "\\" in quoted else quoted[1:-1]
        if token["colon"] is not None:
            self._enter(value)
            return token[0]
        return token[0] if self._may_stay(value) else f'"{_hidden(value)}"'

    def _enter(self, name: str) -> None:
        self._name = name
        within = self._around[-1][1]
        self._extracted = within or name in _EXTRACTED or (name == "data" and len(self._around) > 1)

    def _may_stay(self, value: str) -> bool:
        if self._extracted:
            return False
        if len(self._around) == 1:
            return self._name in _ENVELOPE and PLAIN_ID.fullmatch(value) is not None
        if self._name.endswith(("Id", "_id")):
            return _UUID.fullmatch(value) is not None
        if self._name.endswith(("At", "_at", "_time")):
            return _MOMENT.fullmatch(value) is not None
        return self._name in _WORD_NAMES and value in _WORDS
