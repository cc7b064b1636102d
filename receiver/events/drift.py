"""Drift: event types, fields and forms of known fields that arrive and that our models do not know."""

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
_Path = tuple["_Path | None", str]
"""A place and the step to it. Most places have no drift, so few paths become texts."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the walk has to know of a model."""

    names_keys_freely: bool
    """Unknown keys are normal in it."""
    keys: frozenset[str]
    """The wire names of its fields."""
    steps: tuple[tuple[str, str], ...]
    """The fields that can contain other models: attribute, and the step to it."""

    def allows(self, extra: Mapping[str, Any]) -> bool:
        """Return whether these extra values are no drift, as the meta tags of nearly every page."""
        return self.names_keys_freely and self.keys.isdisjoint(extra)


class _Plans(dict[type, _Plan | None]):
    """The plans of all classes that were met; None for what is no model."""

    def __missing__(self, met: type) -> _Plan | None:
        self[met] = plan = _plan(met) if issubclass(met, ServiceModel) else None
        return plan


def _plan(model: type[ServiceModel]) -> _Plan:
    names = wire_names(model)
    with_models = [name for name, field in model.model_fields.items() if _has_models(field.annotation)]
    steps = tuple((name, f".{names[name]}") for name in with_models)
    return _Plan(model.names_keys_freely, frozenset(names.values()), steps)


def _has_models(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, ServiceModel):
        return True
    return any(_has_models(part) for part in get_args(annotation))


_PLANS = _Plans()
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
    _walk(event, None, found)
    return frozenset([Drift(event.type, kind, path) for kind, path in found]) if found else _NONE


def _walk(value: Any, path: _Path | None, found: set[_Found]) -> None:
    kind = type(value)  # to ask `isinstance` of a model takes a fifth of the time of the whole walk
    if kind is list:
        path = path, "[]"
        for item in value:
            _walk(item, path, found)
    elif kind is dict:
        path = path, ".*"
        for item in value.values():
            _walk(item, path, found)
    elif plan := _PLANS[kind]:
        extra = value.__pydantic_extra__
        if extra and len(found) < MAX_DRIFTS_OF_EVENT and not plan.allows(extra):
            found.update(_own(plan, extra, path))
        values = value.__dict__
        for name, step in plan.steps:
            if inner := values[name]:
                _walk(inner, (path, step), found)


def _own(plan: _Plan, extra: Mapping[str, Any], path: _Path | None) -> Iterator[_Found]:
    """Yield the drift of one object itself. A known key among its extra values had another form."""
    unfit = extra.keys() & plan.keys
    unknown = () if plan.names_keys_freely else extra.keys() - plan.keys
    yield from [(DriftKind.FORM, _text((path, f".{key}"))) for key in unfit]
    yield from [
        (DriftKind.FIELD, _text((path, f".{escape_controls(key[:MAX_KEY_LENGTH])}")))
        for key in islice(unknown, MAX_DRIFTS_OF_EVENT)
    ]


def _text(path: _Path | None) -> str:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps)).removeprefix(".")
