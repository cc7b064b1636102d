"""Drift: the parts of events that our models do not know."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.types import DeliveryKey
from receiver.events import Event, parse_event
from receiver.events.drift import MAX_DRIFTS, Drift, DriftCounter, DriftKind, drift_of
from receiver.service.samples import encode, load_sample, sample_names
from receiver.worker.events import DriftLogger
from tests.cases import for_each
from tests.doubles import NOON, body_of, delivery, event_of

MINUTE = timedelta(minutes=1)


def event(kind: str = "crawl.page", **values: Any) -> Event:
    """Return an event with these values in its body."""
    return parse_event(body_of(kind, id="j", **values))


def paths(read: Event) -> dict[str, str]:
    """Return the kind of each drift by its path."""
    return {one.path: one.kind.value for one in drift_of(read)}


@for_each("name", sorted(set(sample_names()) - {"threat_protection.check_batch"}))
def test_recorded_payloads_have_no_drift(name: str) -> None:
    """This holds for all forms that the service has sent."""
    assert drift_of(parse_event(encode(load_sample(name)))) == frozenset()


def test_an_unknown_type_is_one_drift() -> None:
    """The content of such an event is not counted."""
    (one,) = drift_of(event("schedule.completed", data=[{"a": 1}], extra=2))

    assert one == Drift("schedule.completed", DriftKind.TYPE, "")


@for_each(
    ("kind", "values", "expected"),
    [
        ("crawl.page", {"sentAt": "now"}, {"sentAt": "field"}),
        ("crawl.page", {"data": [{"tone": "x"}]}, {"data[].tone": "field"}),
        ("crawl.page", {"data": [{"tone": "x"}, {"tone": "y"}]}, {"data[].tone": "field"}),
        ("crawl.page", {"data": {"tone": "x"}}, {"data[].tone": "field"}),
        ("crawl.page", {"data": [{"metadata": {"og:title": "x", "newThing": 1}}]}, {}),
        ("crawl.page", {"data": [{"metadata": {"statusCode": "200"}}]}, {"data[].metadata.statusCode": "form"}),
        ("crawl.page", {"data": [{"markdown": 7}]}, {"data[].markdown": "form"}),
        ("crawl.page", {"data": [{"metadata": "x"}]}, {"data[].metadata": "form"}),
        ("crawl.page", {"data": ["x"]}, {"data": "form"}),
        ("crawl.page", {"success": "yes"}, {"success": "form"}),
        ("crawl.page", {"metadata": {"team": "a"}}, {}),
        ("crawl.page", {"metadata": ["a"]}, {"metadata": "form"}),
        ("crawl.page", {"data": [{"json": {"anything": [1]}}]}, {}),
        (
            "crawl.page",
            {"data": [{"changeTracking": {"diff": {"json": {"files": [{"mode": 1}]}}}}]},
            {"data[].changeTracking.diff.json.files[].mode": "field"},
        ),
        ("agent.action", {"data": [{"input": {"url": "x"}, "cost": 1}]}, {"data[].cost": "field"}),
        (
            "monitor.page",
            {"data": [{"diff": {"json": {"price": {"previous": 1, "current": 2, "unit": "EUR"}}}}]},
            {"data[].diff.json.*.unit": "field"},
        ),
        ("crawl.page", {"job_id": "x"}, {"job_id": "field"}),
    ],
)
def test_unknown_fields_and_forms_are_found_at_every_level(
    kind: str, values: dict[str, Any], expected: dict[str, str]
) -> None:
    """Paths use wire names. Meta tags of a page are not drift."""
    assert paths(event(kind, **values)) == expected


def test_the_drift_of_one_event_is_limited() -> None:
    """Number and length of names are limited, because they come from outside."""
    keys: dict[str, Any] = {f"field{number}": 1 for number in range(5_000)}
    many = event(**keys)
    (long,) = drift_of(event(data=[{"x" * 5_000: 1}]))

    assert 100 <= len(drift_of(many)) <= 1_000
    assert len(long.path) <= 100


def test_names_from_outside_are_readable() -> None:
    """They cannot control a terminal, and can be written as JSON."""
    (key,) = drift_of(parse_event(b'{"type":"crawl.page","data":[{"a\\u001b[2J\\ud800":1}]}'))
    (kind,) = drift_of(parse_event(b'{"type":"odd\\u001b\\ud800"}'))

    assert key.path == r"data[].a\x1b[2J\ud800"
    assert kind.type == r"odd\x1b\ud800"


def test_a_counter_counts_deliveries_and_remembers_the_last() -> None:
    """The order in which they are read does not matter."""
    counter = DriftCounter()
    for minutes, key in ((1, "b"), (2, "c"), (0, "a")):
        seen = delivery(key, received_at=NOON + minutes * MINUTE)
        counter.add(event(data=[{"tone": 1}, {"tone": 2}]), seen)
    counter.add(event(), delivery("d", received_at=NOON + 9 * MINUTE))

    (one,) = counter.counts()

    assert (one.count, one.first_at, one.last_at, one.key) == (3, NOON, NOON + 2 * MINUTE, "c")


def test_the_most_recent_drift_comes_first() -> None:
    """Recent changes matter most."""
    counter = DriftCounter()
    counter.add(event(new=1), delivery(received_at=NOON + MINUTE))
    counter.add(event(old=1), delivery(received_at=NOON))

    assert [one.drift.path for one in counter.counts()] == ["new", "old"]


def test_the_number_of_kinds_is_limited() -> None:
    """Further kinds are counted together; known kinds are still counted one by one."""
    counter = DriftCounter()
    for number in range(MAX_DRIFTS + 5):
        counter.add(event(f"type{number}.x"), delivery())
    counter.add(event("type0.x"), delivery())

    assert (len(counter.counts()), counter.others) == (MAX_DRIFTS, 5)
    assert {one.count for one in counter.counts() if one.drift.type == "type0.x"} == {2}


def test_a_worker_logs_each_drift_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log line names the place and the delivery."""
    drifting = DriftLogger()
    caplog.set_level(logging.INFO)
    for key in ("a", "b"):
        drifting.log_new(event(sentAt=1), delivery()._replace(key=DeliveryKey(key)))
    drifting.log_new(event(sentAt=1, other=2), delivery("c"))

    seen = [(vars(record)["path"], vars(record)["id"]) for record in caplog.records]
    assert {event_of(record) for record in caplog.records} == {"event_drift"}
    assert seen == [("sentAt", "a"), ("other", "c")]


def test_a_worker_limits_its_log_lines_of_drift(caplog: pytest.LogCaptureFixture) -> None:
    """Random keys could otherwise fill a disk."""
    drifting = DriftLogger()
    caplog.set_level(logging.INFO)
    for number in range(MAX_DRIFTS + 5):
        drifting.log_new(event(f"type{number}.x"), delivery())

    assert len(caplog.records) == MAX_DRIFTS
