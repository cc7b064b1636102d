"""Splits the text of an expression into tokens, and makes errors that point at a place in it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from receiver.errors import WrongExpression

Kind = Literal["path", "text", "number", "word", "sign", "end"]

WORDS = frozenset({"and", "or", "not", "in", "contains", "matches", "exists", "true", "false", "null"})

_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*')"""
_PATH = rf"(?:\$|[^\W\d][\w:-]*)(?:\.(?:\*|[\w:@-]+|{_QUOTED}))*"
_TOKEN = re.compile(
    rf"(?P<path>{_PATH})|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<text>{_QUOTED})"
    r"|(?P<sign>==|!=|<=|>=|[<>()\[\],])|(?P<space>\s+)",
    re.DOTALL,
)
_STEP = re.compile(rf"{_QUOTED}|[^.]+", re.DOTALL)
_SHOWN_BEFORE, _SHOWN_AFTER = 60, 20


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and the index at which it starts."""

    kind: Kind
    text: str
    at: int


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression, then its end; raise WrongExpression for text that is not a token."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise wrong(text, at, f"found {_strange(text[at])}")
        match found.lastgroup:
            case "path":
                yield Token("word" if found[0] in WORDS else "path", found[0], at)
            case "number":
                yield Token("number", found[0], at)
            case "text":
                yield Token("text", found[0], at)
            case "sign":
                yield Token("sign", found[0], at)
        at = found.end()
    yield Token("end", "", len(text))


def _strange(character: str) -> str:
    match character:
        case '"' | "'":
            return "a quote that is not closed"
        case "=":
            return "'='; to compare two values, write =="
        case _:
            return f"{character!r}, which means nothing here"


def unquoted(quoted: str) -> str:
    """Return the text between quotes, or raise ValueError for an escape that JSON does not have."""
    if quoted.startswith("'"):
        return quoted[1:-1]
    value: str = json.loads(quoted, strict=False)
    return value


def steps_of(path: str) -> tuple[str | None, ...]:
    """Return the steps of a path, None for `*`; raise ValueError as `unquoted` does."""
    steps = _STEP.findall(path.removeprefix("$"))
    return tuple([None if step == "*" else unquoted(step) if step[0] in "\"'" else step for step in steps])


def wrong(text: str, at: int, why: str) -> WrongExpression:
    """Return the error for a mistake at this index; its second and third line show the place."""
    start = max(0, at - _SHOWN_BEFORE)
    shown = _printable(text[start : at + _SHOWN_AFTER])
    return WrongExpression(
        f"wrong expression at character {at + 1}: {_printable(why)}\n  {shown}\n  {' ' * (at - start)}^"
    )


def _printable(text: str) -> str:
    """Return the text with the same number of characters, so that the mark below it points at the right one."""
    return "".join(char if char.isprintable() else " " for char in text)
