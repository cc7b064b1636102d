"""Events whose values all fit are read by a quicker validator. It must agree with the lenient one."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from receiver.events import EVENT_CLASSES, UnknownEvent, parse_event
from receiver.events.documents.shape import _strict_validator
from tests.events.recorded import SAMPLES, VECTORS

PAYLOADS = {
    path.stem: json.loads(path.read_bytes())
    for path in [*sorted(SAMPLES.glob("*.json")), *sorted(VECTORS.glob("*.json"))]
    if "number_5000_digits" not in path.stem and path.read_bytes()[:1] == b"{"
}
ODD: list[Any] = [None, True, 0, -1.5, 2**70, "", "x", "2026-02-30T00:00:00Z", [], [None], [[]], {}, {"id": 1}]


def lenient(payload: dict[str, Any]) -> Any:
    """Read an event with the lenient validator alone."""
    event_class = EVENT_CLASSES.get(payload["type"], UnknownEvent)
    return event_class.model_validate(payload, by_alias=True, by_name=False)


def quick(payload: dict[str, Any]) -> Any:
    """Read an event as `parse_event` does."""
    return EVENT_CLASSES.get(payload["type"], UnknownEvent).read(payload)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value in a payload but that of its type."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [
        path for key, one in inside for path in ((*above, key), *places(one, (*above, key))) if path != ("type",)
    ]


def test_every_recorded_payload_is_read_alike() -> None:
    """Also those with odd values."""
    assert len(PAYLOADS) > 30
    for payload in PAYLOADS.values():
        assert quick(payload) == lenient(payload)


@given(st.data())
def test_a_payload_with_odd_values_is_read_alike(data: st.DataObject) -> None:
    """Wherever the values are, and whatever they are."""
    payload = copy.deepcopy(PAYLOADS[data.draw(st.sampled_from(sorted(PAYLOADS)), "payload")])
    for path in data.draw(st.lists(st.sampled_from(places(payload)), min_size=1, max_size=3), "paths"):
        inside = payload
        try:
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = copy.deepcopy(data.draw(st.sampled_from(ODD), "value"))
        except (IndexError, KeyError, TypeError):
            continue  # the value before it has replaced the object around it

    assert quick(payload) == lenient(payload)


def test_the_quick_validator_refuses_what_does_not_fit() -> None:
    """Otherwise the lenient one would never be asked."""
    payload = json.loads((SAMPLES / "crawl.page.json").read_bytes())
    event_class = EVENT_CLASSES["crawl.page"]
    fitting = _strict_validator(event_class).validate_python(payload, by_alias=True, by_name=False)
    assert fitting == parse_event(json.dumps(payload).encode())

    payload["data"][0]["metadata"]["statusCode"] = {}
    with pytest.raises(ValidationError):
        _strict_validator(event_class).validate_python(payload, by_alias=True, by_name=False)
