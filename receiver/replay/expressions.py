"""Conditions on the JSON of an event, as in `data.0.metadata.statusCode >= 400`.

The parts of an expression come first, then its tokens, then its grammar, by recursive descent:

either     = both {"or" both}
both       = negation {"and" negation}
negation   = "not" negation | test
test       = "(" either ")" | path ["exists" | "matches" text] | operand operator operand
operand    = path | literal | "[" [literal {"," literal}] "]"
"""

import json
import operator
import re
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from receiver.errors import WrongExpression

Scalar = str | int | float | bool | None


class _Absence(Enum):
    MISSING = "missing"


MISSING = _Absence.MISSING
"""The value of a path that does not exist in the event. Only `exists` distinguishes it from null."""


class EventCondition(Protocol):
    """A part that is true or false for a value."""

    def holds(self, event: object) -> bool:
        """Return whether it is true. Never raises."""


class Operand(Protocol):
    """A part that has values."""

    def values(self, event: object) -> Sequence[object]:
        """Return its values: one, or with `*` any number."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path to values, by names and indexes; None stands for `*`."""

    steps: tuple[str | None, ...]

    def values(self, event: object) -> Sequence[object]:
        """Return the values at its end."""
        places = [event]
        for step in self.steps:
            if step is None:
                places = [item for place in places for item in _items(place)]
            else:
                places = [_at(place, step) for place in places]
        return places


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is written down, or a list of them."""

    value: Scalar | tuple[Scalar, ...]

    def values(self, event: object) -> Sequence[object]:
        """Return the value."""
        return (self.value,)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two operands and the word or sign between them, one of OPERATORS."""

    left: Operand
    operator: str
    right: Operand

    def holds(self, event: object) -> bool:
        """Return whether it is true for any pair of values."""
        fits = OPERATORS[self.operator]
        rights = [_like_null(value) for value in self.right.values(event)]
        lefts = [_like_null(value) for value in self.left.values(event)]
        return any(fits(left, right) for left in lefts for right in rights)


@dataclass(frozen=True, slots=True)
class Match:
    """A path and a pattern that a part of its text matches."""

    path: Path
    pattern: re.Pattern[str]

    def holds(self, event: object) -> bool:
        """Return whether any text matches."""
        found = self.path.values(event)
        return any(isinstance(value, str) and self.pattern.search(value) is not None for value in found)


@dataclass(frozen=True, slots=True)
class Existence:
    """A path that exists."""

    path: Path

    def holds(self, event: object) -> bool:
        """Return whether the path exists."""
        return any(value is not MISSING for value in self.path.values(event))


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: EventCondition

    def holds(self, event: object) -> bool:
        """Return whether the condition is false."""
        return not self.part.holds(event)


@dataclass(frozen=True, slots=True)
class And:
    """Conditions that must all be true."""

    parts: tuple[EventCondition, ...]

    def holds(self, event: object) -> bool:
        """Return whether all are true."""
        return all(part.holds(event) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Conditions of which at least one must be true."""

    parts: tuple[EventCondition, ...]

    def holds(self, event: object) -> bool:
        """Return whether one is true."""
        return any(part.holds(event) for part in self.parts)


def _items(place: object) -> Sequence[object]:
    if isinstance(place, dict):
        return list(place.values())
    return place if isinstance(place, list) else ()


def _at(place: object, step: str) -> object:
    if isinstance(place, dict):
        return place.get(step, MISSING)
    if isinstance(place, list) and step.isascii() and step.isdigit() and len(step) < 10 and int(step) < len(place):
        return place[int(step)]
    return MISSING


def _like_null(value: object) -> object:
    return None if value is MISSING else value


def _equal(left: object, right: object) -> bool:
    if left is None or isinstance(left, bool):
        return left is right
    return _alike(left, right) and left == right


def _alike(left: object, right: object) -> bool:
    """Return whether both are texts or both are numbers. In Python True is a number, in JSON it is not."""
    if isinstance(left, str):
        return isinstance(right, str)
    return _is_number(left) and _is_number(right)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ordered(compare: Callable[..., bool]) -> Callable[[object, object], bool]:
    return lambda left, right: _alike(left, right) and compare(left, right)


def _contains(whole: object, part: object) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    return isinstance(whole, list | tuple) and any(_equal(item, part) for item in whole)


OPERATORS: Mapping[str, Callable[[object, object], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "contains": _contains,
    "in": lambda part, whole: _contains(whole, part),
}


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


def compile_expression(text: str) -> Callable[[object], bool]:
    """Return the predicate that an expression describes, for parsed JSON; raises WrongExpression.

    The function never raises, whatever the value. The language:

    - A path leads from the event down, by the names that the sender wrote; `receiver events raw` shows them:
      `data.0.metadata.sourceURL`. A number is an index. `*` stands for every item of a list or object. A name with
      unusual characters is quoted: `metadata."my key"`. `$` is the event itself; use it if the first name is a
      word of the language: `$.exists`.
    - `==`, `!=`, `<`, `<=`, `>`, `>=` compare paths, texts, numbers, `true`, `false` and `null`. A missing value is
      like null. Values of different kinds are not equal, and neither is less. A list or object equals nothing.
    - `contains` searches for a part of a text or an item of a list. `in` is the reverse, also with a written list:
      `type in ["crawl.page", "batch_scrape.page"]`.
    - `matches` searches a text for a regular expression of Python's `re`. Whoever writes the pattern decides how
      long that takes: a pattern like `(a+)+$` takes for ever on some texts.
    - `exists` is true for every value that is present, also null. A path alone is true if its value is true.
    - A comparison with `*` in its path is true if it is true for any item. Only one side may have `*`.
    - `not` binds closer than `and`, and `and` closer than `or`. Parentheses group.
    - "Texts" have the escapes of JSON. 'Texts' have no escapes, which suits patterns.

    An expression may have 1,000 characters and be nested 50 deep.
    """
    return parse(text).holds
