"""The columns of bodies: headers as a text, and bodies as they came, compressed, or in a file."""

import zlib
from collections.abc import Iterator, Sequence
from typing import cast, overload

import msgspec

from receiver.core.types import Headers
from receiver.errors import StoreError, UnreadableBody

_decode = msgspec.json.Decoder(Headers).decode  # in half of the time of pydantic's `from_json`, which makes lists


def headers_text(headers: Headers) -> str:
    """Return headers as the text of a column."""
    return msgspec.json.encode(tuple(headers)).decode()


def headers_of(text: str) -> Headers:
    """Return the headers that `headers_text` wrote."""
    return _decode(text)


def headers_when_asked(text: str) -> Headers:
    """Return the same headers, which are parsed only when one is used.

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


PLAIN, DEFLATED, BESIDE = 0, 1, 2
"""How a body is stored: as it came, compressed, or in a file beside a SQLite database."""

MIN_BYTES = 8 * 1024
"""Shorter bodies are not compressed, and not kept in files beside a database. They fit into one page of the
database, and a page that is partly empty does not get shorter."""

_LEVEL = 1
"""Level 1 makes 37 % of a page of 50 KB in 0.7 ms, and level 6 makes 32 % in twice the time. zstandard takes 0.2
ms. It would be one more dependency, for work that is done in idle moments."""


_DECODERS = {DEFLATED: zlib.decompress}


def deflated(body: bytes) -> bytes | None:
    """Return the compressed body (RFC 1950), or None if that gains little."""
    small = zlib.compress(body, _LEVEL)
    return small if len(small) < 0.9 * len(body) else None


def decoded(body: bytes | str, coding: int, *, key: str) -> bytes:
    """Return the body as it was received. Raises StoreError if the stored body is damaged.

    A text in its place says why it cannot be read from a file beside the database: then it is an UnreadableBody.
    """
    if isinstance(body, str):
        raise UnreadableBody(f"the body of delivery {key} cannot be read: {body}")
    if coding in (PLAIN, BESIDE):
        return body
    try:
        return _DECODERS[coding](body)
    except (KeyError, zlib.error):
        raise StoreError(
            f"the stored body of delivery {key} is damaged; prune its body, and import the delivery from an export"
        ) from None
