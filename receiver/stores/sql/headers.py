"""Headers as the text of a column."""

from collections.abc import Iterator, Sequence
from typing import cast, overload

import msgspec

from receiver.core.types import Headers

_decode = msgspec.json.Decoder(Headers).decode  # in half of the time of pydantic's `from_json`, which makes lists


def headers_text(headers: Headers) -> str:
    """Return headers as the text of a column."""
    return msgspec.json.encode(tuple(headers)).decode()


def headers_of(text: str) -> Headers:
    """Return the headers that `headers_text` wrote."""
    return _decode(text)


def headers_when_asked(text: str) -> Headers:
    """Return the same headers, which are read when somebody looks at one.

    Few handlers look at them, and to read the headers of each event took a tenth of the time of a busy worker.
    """
    return cast("Headers", _StoredHeaders(text))


class _StoredHeaders(Sequence[tuple[str, str]]):
    """Equals a tuple of the same headers, and is one in another process."""

    __slots__ = ("_headers", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._headers: Headers | None = None

    def _read(self) -> Headers:
        if self._headers is None:
            self._headers = headers_of(self._text)
        return self._headers

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    @overload
    def __getitem__(self, at: int) -> tuple[str, str]: ...

    @overload
    def __getitem__(self, at: slice) -> Headers: ...

    def __getitem__(self, at: int | slice) -> tuple[str, str] | Headers:
        return self._read()[at]

    def __eq__(self, other: object) -> bool:
        return self._read() == (other._read() if isinstance(other, _StoredHeaders) else other)

    def __hash__(self) -> int:
        return hash(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def __reduce__(self) -> tuple[type, tuple[Headers]]:
        return tuple, (self._read(),)
