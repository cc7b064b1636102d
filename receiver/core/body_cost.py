"""How much memory a body takes as an event, estimated before any of it is built.

A few bytes of JSON can become an object of two kilobytes. The constants were measured with CPython 3.11 and
pydantic 2.12 on 64 bits, as growth of the process per item. `{}` as a document takes 2,270 bytes, as a page of a
monitor 920, as a file of a tracked change 520, and as plain JSON 70. Each constant is the most that was seen, with
a little added.
"""

import json
from collections.abc import Iterator

COSTLY_BODY = 1024 * 1024
"""A body with a higher cost is read in a thread, alone, and only when the memory for it is free."""
MAX_BODY_COST = 256 * 1024 * 1024
"""A body with a higher cost is not read as an event."""

_OBJECT = 2_400
MAX_OBJECTS = MAX_BODY_COST // _OBJECT
"""A body with more objects costs more than MAX_BODY_COST, however short they are."""
_LIST = 96
_KEY = 120
"""An entry of a dictionary that has just grown, without the text of its key."""
_VALUE = 40
"""A number, and its place in a list that has just grown."""
_TEXT = 60
"""A text, without its characters."""
_WIDEST = 4
"""Bytes for each character of a text, if one of its characters is rare."""
_CHUNK = 64 * 1024
_LOOKED_AT, _LONG_TEXT = 1024, 64
"""How many bytes are examined to choose the fastest count, and the length from which a text counts as long."""
NEVER_REFUSED = MAX_BODY_COST // (_OBJECT + 2 * _WIDEST)
"""No body of at most this many bytes costs more than MAX_BODY_COST, whatever it contains.

Estimates of such bodies took a tenth of the time of a worker that handles small events in batches.
"""


def body_cost(body: bytes, *, precise_from: int = COSTLY_BODY) -> int:
    """Return about how many bytes of memory a JSON text takes at most when it is read as an event.

    The time is proportional to the length of the body, and little memory is used. Counting ends past MAX_BODY_COST.
    For speed, a result of at most `precise_from` may be far too high.
    """
    body = _as_utf8(body)
    objects = _few(body, b"{") * _OBJECT
    if (bound := objects + len(body) * (_WIDEST + _KEY)) <= precise_from:  # no other byte costs more than a key
        return bound
    if (bound := objects + len(body) * _WIDEST + _others(body) * _KEY) <= precise_from:
        return bound
    own = len(body) * (1 if body.isascii() and b"\\u" not in body else _WIDEST)
    cost = own
    for outside, quotes in _outside_of_texts(body):
        cost += _cost_of_values(outside, quotes)
        if cost > MAX_BODY_COST:
            break
    return cost


def _few(body: bytes, byte: bytes) -> int:
    """Count a byte that is rare. CPython finds the next one to replace much faster than it counts: 2 µs for 14."""
    return len(body) - len(body.replace(byte, b""))


def _others(body: bytes) -> int:
    """Count the bytes outside of objects that cost something."""
    middle = len(body) // 2
    if body.count(b'"', middle, middle + _LOOKED_AT) * _LONG_TEXT > _LOOKED_AT:
        return len(body) - len(body.translate(None, b'[:,"'))
    # Long texts: a page, for example. Together these take half as long then, and much longer for many short texts.
    return sum(_few(body, byte) for byte in (b"[", b":", b",", b'"'))


def _as_utf8(body: bytes) -> bytes:
    """Return a text as UTF-8, which the counts assume. `load_json` reads UTF-16 and UTF-32 too."""
    if body.startswith(b'{"'):  # in no other encoding; asking takes a third of the time of the whole estimate
        return body
    encoding = json.detect_encoding(body)
    return body if encoding.startswith("utf-8") else body.decode(encoding, "replace").encode()


def _cost_of_values(outside: bytes, quotes: int) -> int:
    return (
        outside.count(b"{") * _OBJECT
        + outside.count(b"[") * _LIST
        + outside.count(b":") * _KEY
        + outside.count(b",") * _VALUE
        + quotes * _TEXT // 2
    )


def _outside_of_texts(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Return chunks of what is outside of texts, each with its number of quotation marks.

    Texts must not count, since HTML and scripts are full of braces.
    """
    start, in_text = 0, False
    while start < len(body):
        end = _end_of_chunk(body, start)
        parts = body[start:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b" ".join(parts[in_text::2]), len(parts) - 1
        in_text ^= len(parts) % 2 == 0
        start = end


def _end_of_chunk(body: bytes, start: int) -> int:
    """Return the end of the chunk that starts here; it never cuts an escape."""
    end = start + _CHUNK
    chunk = body[start:end]
    backslashes = len(chunk) - len(chunk.rstrip(b"\\"))
    return end + backslashes % 2
