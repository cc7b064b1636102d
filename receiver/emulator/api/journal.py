"""The journal: the last calls of the API, with what was asked for and what was answered."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any

from receiver.emulator.clock import wire_time

Json = dict[str, Any]

MAX_ENTRIES = 1_000
"""Calls that are remembered."""
MAX_SHOWN_BODY = 8_192
"""Characters of a body that are kept; of a longer one only the first are."""
_MAX_SHOWN_VALUES = MAX_SHOWN_BODY
"""Values of a body that are looked at: each has at least one character."""
_SECRET_KEYS = frozenset({"headers", "password", "token", "secret", "authorization", "apikey"})
"""Keys whose values may be secrets, in lower case."""
_HIDDEN = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One call of the API."""

    seq: int
    """A later call has a higher one."""
    at: datetime
    """When it came, on the emulator's clock."""
    method: str
    path: str
    """The path, with the query."""
    status: int
    team: str | None
    """None if no key passed."""
    body: str
    """The JSON body, without the values of headers, cut if it is long; empty without one."""
    error: str | None
    """The text of the answer, if it was an error; a text that says nothing is followed by the first detail."""
    code: str | None
    """The code of the answer, if it was an error that has one."""
    seconds: float
    """How long the answer took, in real time."""
    faked: bool
    """Whether the answer is a fault that was asked for."""

    def as_json(self) -> Json:
        """Return the entry as the admin API lists it."""
        return asdict(self) | {"at": wire_time(self.at), "seconds": round(self.seconds, 3)}


class Journal:
    """Remembers the last calls, in memory."""

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=most)
        self._next = 1

    def add(
        self,
        *,
        at: datetime,
        method: str,
        path: str,
        status: int,
        team: str | None,
        body: Mapping[str, Any],
        answer: Mapping[str, Any],
        seconds: float,
        faked: bool,
    ) -> None:
        """Remember a call."""
        failed = status >= 400 or answer.get("success") is False
        self._entries.append(
            JournalEntry(
                seq=self._next,
                at=at,
                method=method,
                path=path,
                status=status,
                team=team,
                body=_shown(body),
                error=_reason(answer) if failed else None,
                code=_text(answer.get("code")) if failed else None,
                seconds=seconds,
                faked=faked,
            )
        )
        self._next += 1

    def entries(
        self, *, before: int | None = None, path: str | None = None, limit: int = 100
    ) -> list[JournalEntry]:
        """Return calls, newest first: those before a `seq`, and those whose path begins with `path`."""
        found = (
            one
            for one in reversed(self._entries)
            if (before is None or one.seq < before) and (path is None or one.path.startswith(path))
        )
        return [one for one, _ in zip(found, range(limit), strict=False)]

    def forget_all(self) -> None:
        """Forget every call."""
        self._entries.clear()


def _shown(body: Mapping[str, Any]) -> str:
    if not body:
        return ""
    text = json.dumps(_masked(dict(body), [_MAX_SHOWN_VALUES]), ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= MAX_SHOWN_BODY else f"{text[:MAX_SHOWN_BODY]}{_HIDDEN}"


def _masked(value: Any, left: list[int]) -> Any:
    """Return a value without its secrets, as far as it can be shown; `left` is how many more values can."""
    left[0] -= 1
    match value:
        case dict():
            return {
                key: _hidden(item) if key.lower() in _SECRET_KEYS else _masked(item, left)
                for key, item in takewhile(lambda _: left[0] > 0, value.items())
            }
        case list():
            return [_masked(item, left) for item in takewhile(lambda _: left[0] > 0, value)]
        case str():
            return value[: MAX_SHOWN_BODY + 1]
    return value


def _hidden(value: Any) -> Any:
    return dict.fromkeys(value, _HIDDEN) if isinstance(value, dict) else _HIDDEN


def _reason(answer: Mapping[str, Any]) -> str | None:
    """Return the text of an answer. `Bad Request` alone does not say what is wrong: the first detail does."""
    text = _text(answer.get("error"))
    match answer.get("details"):
        case [{"path": list() as path, "message": str() as message}, *_] if text and message not in text:
            return f"{text}: {'.'.join(map(str, path))}: {message}" if path else f"{text}: {message}"
    return text


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
