"""Events whose values all fit are read by quicker validators. They must agree with the lenient one."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from receiver.core.body_cost import NEVER_REFUSED
from receiver.core.envelope import load_json
from receiver.events import EVENT_CLASSES, Event, UnknownEvent, parse_event
from receiver.events.catalog import StrictReader
from receiver.events.documents import ServiceModel
from receiver.events.documents.shape import _strict_validator
from tests.events.recorded import SAMPLES, VECTORS

BODIES = {
    path.stem: path.read_bytes() for path in [*sorted(SAMPLES.glob("*.json")), *sorted(VECTORS.glob("*.json"))]
}
PAYLOADS = {
    name: json.loads(body)
    for name, body in BODIES.items()
    if "number_5000_digits" not in name and body.startswith(b"{")
}
READ_STRICTLY = {name for name in PAYLOADS if (SAMPLES / f"{name}.json").exists()} - {
    "monitor.check.completed.object",
    "monitor.check.completed.object_pages",
    "monitor.page.object",
    "threat_protection.check_batch",
}
"""The samples but those of unknown types, and of events in which older senders gave no list."""

ODD = [
    *("null", "true", "false", '""', '"x"', '"2026-02-30T00:00:00Z"', '"2026-08-01T10:00:00+02:00"', '"7"'),
    *("0", "-0", "-1.5", "1.0", "200.0", "1e3", "-0.0", "1e400", "NaN", "Infinity", "-Infinity"),
    *(str(2**31), str(2**63), str(-(2**63) - 1), str(2**64), "9" * 400, "9" * 4_300, "9" * 5_000),
    *("[]", "[null]", "[[]]", '["a",1]', '[{},{"a":1}]', "{}", '{"id":1}', '{"text":"t"}', '{"content":{"a":1}}'),
    *('{"a":1,"b":2,"a":3}', '{"markdown":1,"markdown":"x"}', '{"markdown":"x","markdown":1}', '{"":0}'),
    *('{"status_code":1,"statusCode":2}', '{"json_":1}', '{"previous":1,"other":2}', '{"a":{"previous":1}}'),
    *(r'"\ud83d"', r'"\ud83d\udc0e"', r'"\u0000"', r'{"\ud83d":1}', '"\U0001f40e"', "[" * 150 + "]" * 150),
    *("[" * 250 + "]" * 250, '{"a":' * 300 + "1" + "}" * 300, " 1 ", '"\N{LATIN SMALL LETTER E WITH ACUTE}"'),
]
"""JSON texts of values that a field may not expect, or that one parser reads in another way than the other."""


def lenient(body: bytes) -> Event:
    """Read an event with the lenient parser and the lenient validator alone."""
    payload = load_json(body)
    return EVENT_CLASSES.get(payload["type"], UnknownEvent).model_validate(payload, by_alias=True, by_name=False)


def all_of(value: Any) -> Any:
    """Return all that a handler can see of a value: also types, orders, and which fields were given."""
    if isinstance(value, ServiceModel):
        return type(value), all_of(vars(value)), all_of(value.model_extra), sorted(value.model_fields_set)
    if isinstance(value, dict):
        return [(repr(key), all_of(one)) for key, one in value.items()]
    if isinstance(value, list):
        return [all_of(one) for one in value]
    return type(value), value if isinstance(value, int) else repr(value)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value in a payload but that of its type."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [
        path for key, one in inside for path in ((*above, key), *places(one, (*above, key))) if path != ("type",)
    ]


def test_every_recorded_body_is_read_alike() -> None:
    """Also those with odd values."""
    assert len(BODIES) > 30
    for body in BODIES.values():
        assert all_of(parse_event(body)) == all_of(lenient(body))


@given(st.data())
def test_a_body_with_odd_values_is_read_alike(data: st.DataObject) -> None:
    """Wherever the values are, whatever they are, and also if a key comes twice."""
    payload = copy.deepcopy(PAYLOADS[data.draw(st.sampled_from(sorted(PAYLOADS)), "payload")])
    texts: list[str] = []
    for path in data.draw(st.lists(st.sampled_from(places(payload)), min_size=1, max_size=3), "paths"):
        inside = payload
        for key in path[:-1]:
            inside = inside[key] if isinstance(inside, dict | list) else None
        if not isinstance(inside, dict | list):
            continue  # the value before it has replaced the object around it
        text = data.draw(st.sampled_from(ODD), "value")
        if isinstance(inside, dict) and data.draw(st.booleans(), "twice"):
            text += f",{json.dumps(path[-1])}:{data.draw(st.sampled_from(ODD), 'second value')}"
        inside[path[-1]] = f"@{len(texts)}@"
        texts.append(text)
    written = json.dumps(payload, ensure_ascii=data.draw(st.booleans(), "escaped"))
    for number, text in enumerate(texts):
        written = written.replace(f'"@{number}@"', text)
    body = written.encode("utf-8", "surrogatepass")

    assert all_of(parse_event(body)) == all_of(lenient(body))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(EVENT_CLASSES)), st.data())
def test_a_field_with_any_value_is_read_alike(event_type: str, data: st.DataObject) -> None:
    """In the event itself and in its item."""
    event_class = EVENT_CLASSES[event_type]
    item_classes: tuple[Any, ...] = getattr(event_class.model_fields["data"].annotation, "__args__", ())
    keys = [field.alias for one in item_classes for field in getattr(one, "model_fields", {}).values()] or ["a"]
    item = data.draw(st.dictionaries(st.sampled_from(keys), json_values, max_size=3), "item")
    envelope = data.draw(
        st.dictionaries(st.sampled_from(["success", "id", "jobId", "webhookId", "error", "metadata"]), json_values),
        "envelope",
    )
    body = json.dumps(envelope | {"type": event_type, "data": [item]}).encode()

    assert all_of(parse_event(body)) == all_of(lenient(body))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_other_encodings_are_read_alike(encoding: str) -> None:
    """The parser of the quick validator knows only UTF-8."""
    body = json.dumps(PAYLOADS["crawl.page"]).encode(encoding)

    assert all_of(parse_event(body)) == all_of(lenient(body))


@pytest.mark.parametrize("first", ['"crawl.started"', '"crawl.page"', '"monitor.page"', '"x"', "5", "null"])
@pytest.mark.parametrize("second", ['"crawl.page"', '"crawl.started"', '"new.kind"'])
def test_of_two_types_the_second_counts(first: str, second: str) -> None:
    """As of all keys that come twice."""
    body = f'{{"type":{first},"data":[{{"markdown":"a"}}],"type":{second},"id":"1"}}'.encode()

    assert all_of(parse_event(body)) == all_of(lenient(body))
    assert parse_event(body).type == json.loads(second)


def test_a_long_body_is_read_alike() -> None:
    """It is parsed first, since the quick validator would have its texts in memory twice."""
    payload = copy.deepcopy(PAYLOADS["crawl.page"])
    payload["data"][0]["markdown"] = "x" * NEVER_REFUSED
    body = json.dumps(payload).encode()

    assert all_of(parse_event(body)) == all_of(lenient(body))


def test_what_the_service_sends_is_read_in_one_step() -> None:
    """Otherwise the lenient validator would do all work."""
    reader = StrictReader(EVENT_CLASSES)

    assert {name for name in PAYLOADS if reader.read(BODIES[name])} >= READ_STRICTLY
    assert len(READ_STRICTLY) > 30


@pytest.mark.parametrize("value", [{}, "200", 200.0])
def test_the_quick_validators_refuse_what_does_not_fit(value: object) -> None:
    """Otherwise the lenient one would never be asked."""
    payload = copy.deepcopy(PAYLOADS["crawl.page"])
    event_class = EVENT_CLASSES["crawl.page"]
    fitting = _strict_validator(event_class).validate_python(payload, by_alias=True, by_name=False)
    assert fitting == parse_event(json.dumps(payload).encode())

    payload["data"][0]["metadata"]["statusCode"] = value
    assert StrictReader(EVENT_CLASSES).read(json.dumps(payload).encode()) is None
    with pytest.raises(ValidationError):
        _strict_validator(event_class).validate_python(payload, by_alias=True, by_name=False)
