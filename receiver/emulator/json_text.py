"""JSON as the service writes it: UTF-8, compact, keys in the given order."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

LARGE = 500_000
"""Characters; a larger value is written piece by piece."""
_PIECE = 1_000_000
"""Characters of a text that are written in one step, in which nothing else runs."""
_DEPTH = 3
"""Levels of a large value that are written piece by piece."""
_OF_ONE = 64
"""Characters that a value below these levels is taken for."""


_Write = Callable[[Any], Iterator[bytes]]


def to_json(value: Any) -> bytes:
    """Return a JSON value as bytes. A lone surrogate, which a page may hold, is escaped; NaN becomes null."""
    return _whole(value) if _weight(value) <= LARGE else b"".join(_pieces(value))


async def to_json_beside(value: Any) -> bytes:
    """Do as `to_json`, but in a thread if the value is large."""
    return _whole(value) if _weight(value) <= LARGE else await asyncio.to_thread(to_json, value)


def _weight(value: Any, depth: int = _DEPTH) -> int:
    """Return about how many characters a value has; counting stops once it is LARGE."""
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, dict | list):
        return 1
    if not depth:
        return _OF_ONE * len(value)
    weight = 0
    for one in value.values() if isinstance(value, dict) else value:
        weight += _weight(one, depth - 1)
        if weight > LARGE:
            break
    return weight


def _pieces(value: Any, depth: int = _DEPTH) -> Iterator[bytes]:
    if isinstance(value, str) and len(value) > _PIECE:
        yield b'"'
        for at in range(0, len(value), _PIECE):
            yield _whole(value[at : at + _PIECE])[1:-1]
        yield b'"'
    elif depth and isinstance(value, dict):
        yield from _members(value, lambda one: _pieces(one, depth - 1))
    elif depth and isinstance(value, list):
        yield from _items(value, lambda one: _pieces(one, depth - 1))
    else:
        yield _whole(value)


def _whole(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return b"".join(_with_surrogates(value))


def _with_surrogates(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        # JSON.stringify escapes lone surrogates too: ECMA-262, section QuoteJSONString.
        yield json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    elif isinstance(value, dict):
        yield from _members(value, _with_surrogates)
    elif isinstance(value, list | tuple):
        yield from _items(value, _with_surrogates)
    else:
        yield msgspec.json.encode(value)


def _members(value: dict[Any, Any], write: _Write) -> Iterator[bytes]:
    yield b"{"
    for number, (key, one) in enumerate(value.items()):
        yield b"," if number else b""
        yield _whole(str(key))
        yield b":"
        yield from write(one)
    yield b"}"


def _items(value: Iterable[Any], write: _Write) -> Iterator[bytes]:
    yield b"["
    for number, one in enumerate(value):
        yield b"," if number else b""
        yield from write(one)
    yield b"]"
