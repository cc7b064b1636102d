"""What arrives and our models do not know: types, fields, and known fields that have another form."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, get_args

from receiver.core.deliveries import Delivery
from receiver.core.types import DeliveryKey
from receiver.events import EVENT_CLASSES, Event
from receiver.events.documents.shape import ServiceModel

MOST_KINDS = 1_000
"""Different things counted one by one; they come from outside, and memory is bounded."""
_MOST_IN_AN_EVENT = 200
_LONGEST_KEY = 60
_LONGEST_TYPE = 200


class DriftKind(StrEnum):
    """What a model does not know."""

    TYPE = "type"
    """An event of this type."""
    FIELD = "field"
    """A key of an object."""
    FORM = "form"
    """The form of a value whose key it knows; the event reads as if it were missing."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that our models do not know.

    `path` leads to it by wire names, as `data[].metadata.statusCode`, with `[]` for the items of a list and `*` for
    the values of a free object; it is empty for a type.
    """

    type: str
    kind: DriftKind
    path: str


_Found = tuple[DriftKind, str]
_NONE: frozenset[Drift] = frozenset()


@dataclass(slots=True)
class DriftCount:
    """How often something was seen, once per delivery; `key` is that of the delivery seen last."""

    drift: Drift
    count: int
    first_at: datetime
    last_at: datetime
    key: DeliveryKey


class DriftCounter:
    """Counts drift over any number of events, in bounded memory. `others` counts what came after 1,000 kinds."""

    def __init__(self) -> None:
        self.others = 0
        self._sights: dict[Drift, DriftCount] = {}

    def add(self, event: Event, delivery: Delivery) -> None:
        """Count what is new in this event."""
        at = delivery.received_at
        for one in drift_of(event):
            sights = self._sights.get(one)
            if sights is not None:
                sights.count += 1
                sights.first_at = min(sights.first_at, at)
                sights.last_at, sights.key = max((sights.last_at, sights.key), (at, delivery.key))
            elif len(self._sights) < MOST_KINDS:
                self._sights[one] = DriftCount(one, 1, at, at, delivery.key)
            else:
                self.others += 1

    def sights(self) -> Sequence[DriftCount]:
        """Return what was seen, what was seen last first."""
        return sorted(self._sights.values(), key=lambda one: (one.last_at, one.drift.path), reverse=True)


def drift_of(event: Event) -> frozenset[Drift]:
    """Return what our models do not know of an event, each once however often it is in there; 200 at most."""
    if event.type not in EVENT_CLASSES:
        return frozenset((Drift(_readable(event.type, _LONGEST_TYPE), DriftKind.TYPE, ""),))
    found: set[_Found] = set()
    _walk(event, "", found)
    return frozenset([Drift(event.type, kind, path) for kind, path in found]) if found else _NONE


def _walk(shape: ServiceModel, path: str, found: set[_Found]) -> None:
    model = type(shape)
    if shape.__pydantic_extra__ and len(found) < _MOST_IN_AN_EVENT:
        found.update(_own(model, shape.__pydantic_extra__, path))
    values = shape.__dict__
    for name, wire_name in _fields_with_shapes(model):
        if value := values[name]:
            _walk_value(value, f"{path}.{wire_name}" if path else wire_name, found)


def _walk_value(value: Any, path: str, found: set[_Found]) -> None:
    if isinstance(value, ServiceModel):
        _walk(value, path, found)
    elif isinstance(value, list):
        for item in value:
            _walk_value(item, f"{path}[]", found)
    elif isinstance(value, dict):
        for item in value.values():
            _walk_value(item, f"{path}.*", found)


def _own(model: type[ServiceModel], extra: Mapping[str, Any], path: str) -> Iterator[_Found]:
    """Yield what one object has beside what its model knows. A known key among that came in another form."""
    before = f"{path}." if path else ""
    known = _wire_names(model)
    unfit = extra.keys() & known
    unknown = () if model.names_keys_freely else extra.keys() - known
    yield from [(DriftKind.FORM, f"{before}{key}") for key in unfit]
    yield from [
        (DriftKind.FIELD, f"{before}{_readable(key, _LONGEST_KEY)}") for key in islice(unknown, _MOST_IN_AN_EVENT)
    ]


def _readable(outside: str, longest: int) -> str:
    """Return a name on one line, not endless, that every terminal and JSON text takes."""
    return outside[:longest] if outside.isprintable() else ascii(outside[:longest])[1:-1]


@functools.cache
def _wire_names(model: type[ServiceModel]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


@functools.cache
def _fields_with_shapes(model: type[ServiceModel]) -> tuple[tuple[str, str], ...]:
    """Return attribute and wire name of the fields in which there can be other shapes."""
    return tuple(
        (name, field.alias or name) for name, field in model.model_fields.items() if _has_shapes(field.annotation)
    )


def _has_shapes(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, ServiceModel):
        return True
    return any(_has_shapes(part) for part in get_args(annotation))
