"""Drift: event types, fields and forms of known fields that arrive and that our models do not know."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, get_args

from receiver.core.deliveries import Delivery
from receiver.core.text import escape_controls
from receiver.core.types import DeliveryKey
from receiver.events import EVENT_CLASSES, Event
from receiver.events.documents.shape import ServiceModel, wire_names

MAX_DRIFTS = 1_000
"""The most kinds of drift counted one by one: their names come from outside, and memory is bounded."""
MAX_DRIFTS_OF_EVENT = 200
MAX_KEY_LENGTH = 60
MAX_TYPE_LENGTH = 200


class DriftKind(StrEnum):
    """The kind of thing that a model does not know."""

    TYPE = "type"
    """The type of an event."""
    FIELD = "field"
    """A key of an object."""
    FORM = "form"
    """The form of a value whose key is known. The event is read as if the value were missing."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that our models do not know."""

    type: str
    """The event's type."""
    kind: DriftKind
    """Whether the type, a field or the form of a value is unknown."""
    path: str
    """Where in the event, by wire names, as `data[].metadata.statusCode`; empty for a type.

    `[]` stands for the items of a list, `*` for the values of a free object.
    """


_Found = tuple[DriftKind, str]
_NONE: frozenset[Drift] = frozenset()


@dataclass(slots=True)
class DriftCount:
    """How often something was seen."""

    drift: Drift
    """The thing that was seen."""
    count: int
    """In how many deliveries it was seen."""
    first_at: datetime
    """When the first of them arrived, in UTC."""
    last_at: datetime
    """When the last of them arrived, in UTC."""
    key: DeliveryKey
    """Public id of the last of them."""


class DriftCounter:
    """Counts drift over any number of events. `others` counts all drift after the first 1,000 kinds."""

    def __init__(self) -> None:
        self.others = 0
        self._counts: dict[Drift, DriftCount] = {}

    def add(self, event: Event, delivery: Delivery) -> None:
        """Count the drift of this event."""
        at = delivery.received_at
        for one in drift_of(event):
            known = self._counts.get(one)
            if known is not None:
                known.count += 1
                known.first_at = min(known.first_at, at)
                known.last_at, known.key = max((known.last_at, known.key), (at, delivery.key))
            elif len(self._counts) < MAX_DRIFTS:
                self._counts[one] = DriftCount(one, 1, at, at, delivery.key)
            else:
                self.others += 1

    def counts(self) -> Sequence[DriftCount]:
        """Return the counts, the most recent drift first."""
        return sorted(self._counts.values(), key=lambda one: (one.last_at, one.drift.path), reverse=True)


def drift_of(event: Event) -> frozenset[Drift]:
    """Return the drift of an event, each kind once, at most 200 kinds."""
    if event.type not in EVENT_CLASSES:
        return frozenset((Drift(escape_controls(event.type[:MAX_TYPE_LENGTH]), DriftKind.TYPE, ""),))
    found: set[_Found] = set()
    _walk(event, "", found)
    return frozenset([Drift(event.type, kind, path) for kind, path in found]) if found else _NONE


def _walk(read: ServiceModel, path: str, found: set[_Found]) -> None:
    model = type(read)
    if read.__pydantic_extra__ and len(found) < MAX_DRIFTS_OF_EVENT:
        found.update(_own(model, read.__pydantic_extra__, path))
    values = read.__dict__
    for name, wire_name in _fields_with_models(model):
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
    """Yield the drift of one object itself. A known key among its extra values had another form."""
    known = _keys(model)
    if model.names_keys_freely and known.isdisjoint(extra):
        return  # the meta tags of nearly every page
    before = f"{path}." if path else ""
    unfit = extra.keys() & known
    unknown = () if model.names_keys_freely else extra.keys() - known
    yield from [(DriftKind.FORM, f"{before}{key}") for key in unfit]
    yield from [
        (DriftKind.FIELD, f"{before}{escape_controls(key[:MAX_KEY_LENGTH])}")
        for key in islice(unknown, MAX_DRIFTS_OF_EVENT)
    ]


@functools.cache
def _keys(model: type[ServiceModel]) -> frozenset[str]:
    return frozenset(wire_names(model).values())


@functools.cache
def _fields_with_models(model: type[ServiceModel]) -> tuple[tuple[str, str], ...]:
    """Return attribute and wire name of the fields that can contain other models."""
    return tuple(
        (name, wire_names(model)[name])
        for name, field in model.model_fields.items()
        if _has_models(field.annotation)
    )


def _has_models(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, ServiceModel):
        return True
    return any(_has_models(part) for part in get_args(annotation))
