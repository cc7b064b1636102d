"""What a working process answers: JSON, and long texts of it apart, so that nothing takes long at one time."""

import json
from typing import Any

LONG = 100_000
"""Characters of a text that stands apart."""
PREFIX = 8
"""Bytes that tell the length of a piece."""
_CODEC = ("utf-8", "surrogatepass")


def pack_answer(answer: dict[str, Any]) -> list[bytes]:
    """Return the pieces of an answer: its JSON, then the texts that stand apart. Each has its length before it."""
    value = answer.get("value")
    texts: list[bytes] = []
    names: list[str] = []
    if isinstance(value, dict):
        names = [name for name, one in value.items() if isinstance(one, str) and len(one) > LONG]
        texts = [value[name].encode(*_CODEC) for name in names]
        answer = {**answer, "value": {name: one for name, one in value.items() if name not in names}}
    head = json.dumps({**answer, "apart": names}).encode()
    return [part for piece in (head, *texts) for part in (len(piece).to_bytes(PREFIX), piece)]


def names_apart(head: dict[str, Any]) -> list[str]:
    """Return the names of the texts that follow the JSON of an answer."""
    return list(map(str, head.get("apart", ())))


def unpack_text(piece: bytes) -> str:
    """Return a text that stood apart."""
    return piece.decode(*_CODEC)
