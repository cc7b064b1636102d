"""The grammar of expressions, by recursive descent.

either     = both {"or" both}
both       = negation {"and" negation}
negation   = "not" negation | test
test       = "(" either ")" | path ["exists" | "matches" text] | operand operator operand
operand    = path | literal | "[" [literal {"," literal}] "]"
"""

import json
import re
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from receiver.errors import WrongExpression
from receiver.replay.expressions.nodes import (
    OPERATORS,
    And,
    Comparison,
    EventCondition,
    Existence,
    Literal,
    Match,
    Not,
    Operand,
    Or,
    Path,
    Scalar,
)

# FOLDED: Splits the text of an expression into tokens, and makes errors that point at a place in it.
Kind = typing.Literal["path", "text", "number", "word", "sign", "end"]

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


T = TypeVar("T")

MAX_LENGTH = 1_000
MAX_DEPTH = 50
_CONSTANTS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


def parse(text: str) -> EventCondition:
    """Return the condition that the text describes, or raise WrongExpression."""
    if len(text) > MAX_LENGTH:
        raise WrongExpression(f"wrong expression: it has {len(text):,} characters, {MAX_LENGTH:,} are allowed")
    parser = _Parser(text)
    condition = parser.either()
    parser.expect_end()
    return condition


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._next = next(self._tokens)
        self._depth = 0

    def either(self) -> EventCondition:
        return self._chain("or", lambda: self._chain("and", self._negation, And), Or)

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._expected("and, or, or the end")

    def _chain(
        self,
        word: str,
        part: Callable[[], EventCondition],
        join: Callable[[tuple[EventCondition, ...]], EventCondition],
    ) -> EventCondition:
        parts = [part()]
        while self._took(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else join(tuple(parts))

    def _negation(self) -> EventCondition:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise wrong(self._text, self._next.at, f"it is nested more than {MAX_DEPTH} deep")
        condition: EventCondition
        if self._took("not"):
            condition = Not(self._negation())
        elif self._took("("):
            condition = self.either()
            if not self._took(")"):
                raise self._expected("and, or, or `)`")
        else:
            condition = self._test()
        self._depth -= 1
        return condition

    def _test(self) -> EventCondition:
        left = self._operand()
        if isinstance(left, Path):
            if self._took("exists"):
                return Existence(left)
            if self._took("matches"):
                return Match(left, self._pattern())
        if self._next.text in OPERATORS and self._next.kind in ("sign", "word"):
            return self._comparison(left, self._take())
        if isinstance(left, Path):
            return Comparison(left, "==", Literal(True))
        raise self._expected(f"one of {' '.join(OPERATORS)}")

    def _comparison(self, left: Operand, operator: Token) -> EventCondition:
        at = self._next.at
        right = self._operand()
        if isinstance(left, Path) and isinstance(right, Path) and None in left.steps and None in right.steps:
            raise wrong(self._text, at, "only one side may have `*`")
        return Comparison(left, operator.text, right)

    def _operand(self) -> Operand:
        if self._next.kind == "path":
            return Path(self._decoded(self._take(), steps_of))
        if not self._took("["):
            return Literal(self._literal("a path, a text in quotes, a number, true, false, null, or a list"))
        values: list[Scalar] = []
        while not self._took("]"):
            if values and not self._took(","):
                raise self._expected("`,` or `]`")
            values.append(self._literal("a text in quotes, a number, true, false or null"))
        return Literal(tuple(values))

    def _literal(self, expected: str) -> Scalar:
        token = self._next
        if token.text in _CONSTANTS:
            return _CONSTANTS[self._take().text]
        if token.kind == "text":
            return self._decoded(self._take(), unquoted)
        if token.kind == "number":
            text = self._take().text
            return float(text) if set(text) & set(".eE") else int(text)
        raise self._expected(expected)

    def _pattern(self) -> re.Pattern[str]:
        if self._next.kind != "text":
            raise self._expected("a regular expression in quotes")
        token = self._take()
        pattern = self._decoded(token, unquoted)
        try:
            with warnings.catch_warnings(action="ignore"):  # of what a pattern may mean in a later Python
                return re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as exc:
            raise wrong(self._text, token.at, f"no regular expression: {exc}") from None

    def _decoded(self, token: Token, decode: Callable[[str], T]) -> T:
        try:
            return decode(token.text)
        except ValueError:
            raise wrong(self._text, token.at, "an escape that JSON does not have; '…' needs none") from None

    def _took(self, text: str) -> bool:
        """Go past the next token if it is this word or sign."""
        if self._next.kind in ("word", "sign") and self._next.text == text:
            self._take()
            return True
        return False

    def _take(self) -> Token:
        token = self._next
        self._next = next(self._tokens, token)
        return token

    def _expected(self, what: str) -> WrongExpression:
        found = "the end" if self._next.kind == "end" else self._next.text
        return wrong(self._text, self._next.at, f"expected {what}, found {found}")
