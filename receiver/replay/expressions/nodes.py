"""The parts of an expression. Each decides whether it is true for a JSON value."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

Scalar = str | int | float | bool | None


class _Absence(Enum):
    MISSING = "missing"


MISSING = _Absence.MISSING
"""The value of a path that does not exist in the event. Only `exists` tells it from null."""


class EventCondition(Protocol):
    """A part that is true or false for a value."""

    def holds(self, event: object) -> bool:
        """Tell whether it is true. Never raises."""


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
        """Tell whether it is true for any pair of values."""
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
        """Tell whether any text matches."""
        found = self.path.values(event)
        return any(isinstance(value, str) and self.pattern.search(value) is not None for value in found)


@dataclass(frozen=True, slots=True)
class Existence:
    """A path that exists."""

    path: Path

    def holds(self, event: object) -> bool:
        """Tell whether the path exists."""
        return any(value is not MISSING for value in self.path.values(event))


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: EventCondition

    def holds(self, event: object) -> bool:
        """Tell whether the condition is false."""
        return not self.part.holds(event)


@dataclass(frozen=True, slots=True)
class And:
    """Conditions that must all be true."""

    parts: tuple[EventCondition, ...]

    def holds(self, event: object) -> bool:
        """Tell whether all are true."""
        return all(part.holds(event) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Conditions of which at least one must be true."""

    parts: tuple[EventCondition, ...]

    def holds(self, event: object) -> bool:
        """Tell whether one is true."""
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
    """Tell whether both are texts or both are numbers. In Python True is a number, in JSON it is not."""
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
