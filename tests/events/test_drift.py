"""What our models do not know of events, found by walking them."""

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.types import DeliveryKey
from receiver.events import Event, parse_event
from receiver.events.drift import MAX_DRIFTS, Drift, DriftCounter, DriftKind, drift_of
from receiver.service.samples import encode, load_sample, sample_names
from receiver.worker.drift_log import DriftLogger
from tests.cases import for_each
from tests.doubles import NOON, body_of, delivery

MINUTE = timedelta(minutes=1)


def event(kind: str = "crawl.page", **values: Any) -> Event:
    """Return an event with these values in its body."""
    return parse_event(body_of(kind, id="j", **values))


def paths(read: Event) -> dict[str, str]:
    """Return the kind of each drift by its path."""
    return {one.path: one.kind.value for one in drift_of(read)}


@for_each("name", sorted(set(sample_names()) - {"threat_protection.check_batch"}))
def test_what_the_service_is_known_to_send_is_no_drift(name: str) -> None:
    """In any of the forms that it has had."""
    assert drift_of(parse_event(encode(load_sample(name)))) == frozenset()


def test_a_type_that_is_not_known_is_one_drift() -> None:
    """Whatever is in it: nothing of that is known."""
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
def test_fields_and_forms_are_found_where_they_are(
    kind: str, values: dict[str, Any], expected: dict[str, str]
) -> None:
    """At every level, by the names of the wire; what names its keys freely has none that are new."""
    assert paths(event(kind, **values)) == expected


def test_an_event_with_very_many_new_fields_is_not_told_in_full() -> None:
    """And a long name is cut: both come from outside."""
    keys: dict[str, Any] = {f"field{number}": 1 for number in range(5_000)}
    many = event(**keys)
    (long,) = drift_of(event(data=[{"x" * 5_000: 1}]))

    assert 100 <= len(drift_of(many)) <= 1_000
    assert len(long.path) <= 100


def test_names_from_outside_are_readable() -> None:
    """Nothing in them can steer a terminal, and each can be written as JSON."""
    (key,) = drift_of(parse_event(b'{"type":"crawl.page","data":[{"a\\u001b[2J\\ud800":1}]}'))
    (kind,) = drift_of(parse_event(b'{"type":"odd\\u001b\\ud800"}'))

    assert key.path == r"data[].a\x1b[2J\ud800"
    assert kind.type == r"odd\x1b\ud800"


def test_a_tally_counts_deliveries_and_remembers_the_last() -> None:
    """Whatever the order in which they are read."""
    tally = DriftCounter()
    for minutes, key in ((1, "b"), (2, "c"), (0, "a")):
        seen = delivery(key, received_at=NOON + minutes * MINUTE)
        tally.add(event(data=[{"tone": 1}, {"tone": 2}]), seen)
    tally.add(event(), delivery("d", received_at=NOON + 9 * MINUTE))

    (one,) = tally.sights()

    assert (one.count, one.first_at, one.last_at, one.key) == (3, NOON, NOON + 2 * MINUTE, "c")


def test_what_was_seen_last_comes_first() -> None:
    """It is the news."""
    tally = DriftCounter()
    tally.add(event(new=1), delivery(received_at=NOON + MINUTE))
    tally.add(event(old=1), delivery(received_at=NOON))

    assert [one.drift.path for one in tally.sights()] == ["new", "old"]


def test_a_tally_takes_so_many_kinds_at_most() -> None:
    """The others are counted together; those it has go on to be counted."""
    tally = DriftCounter()
    for number in range(MAX_DRIFTS + 5):
        tally.add(event(f"type{number}.x"), delivery())
    tally.add(event("type0.x"), delivery())

    assert (len(tally.sights()), tally.others) == (MAX_DRIFTS, 5)
    assert {one.count for one in tally.sights() if one.drift.type == "type0.x"} == {2}


def test_a_worker_says_each_thing_once(caplog: pytest.LogCaptureFixture) -> None:
    """With where it is, and the delivery in which it is."""
    drifting = DriftLogger()
    caplog.set_level(logging.INFO)
    for key in ("a", "b"):
        drifting.log_new(event(sentAt=1), replace(delivery(), key=DeliveryKey(key)))
    drifting.log_new(event(sentAt=1, other=2), delivery("c"))

    seen = [(vars(record)["path"], vars(record)["id"]) for record in caplog.records]
    assert {record.message for record in caplog.records} == {"event_drift"}
    assert seen == [("sentAt", "a"), ("other", "c")]


def test_a_worker_does_not_talk_without_end(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sends random keys could fill a disk with it."""
    drifting = DriftLogger()
    caplog.set_level(logging.INFO)
    for number in range(MAX_DRIFTS + 5):
        drifting.log_new(event(f"type{number}.x"), delivery())

    assert len(caplog.records) == MAX_DRIFTS
