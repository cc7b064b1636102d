"""Reading events: bodies that no sender makes, and every other object with a type."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.errors import Malformed
from receiver.events import (
    EVENT_CLASSES,
    BatchScrapePage,
    CrawlCompleted,
    CrawlPage,
    MonitorPage,
    UnknownEvent,
    parse_event,
)
from receiver.events.documents import Document, DocumentMetadata
from receiver.events.drift import drift_of
from tests.cases import for_each
from tests.events.recorded import VECTORS, read, sample, vector

TOO_LONG_A_NUMBER = "crawl.page.number_5000_digits"

every_vector = for_each("path", [path for path in sorted(VECTORS.glob("*.json")) if path.stem != TOO_LONG_A_NUMBER])


@every_vector
def test_an_odd_body_is_read(path: Path) -> None:
    """It becomes the class of its type, and keeps its type."""
    event = parse_event(path.read_bytes())

    assert type(event) is EVENT_CLASSES.get(event.type, UnknownEvent)
    assert isinstance(event.data, list)
    assert isinstance(event.metadata, dict)
    assert len(repr(event)) < 300


def test_a_number_of_5000_digits_is_read() -> None:
    """It is legal JSON."""
    parse_event((VECTORS / f"{TOO_LONG_A_NUMBER}.json").read_bytes())


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    """It may be JSON, so it is not said to be none."""
    with pytest.raises(Malformed, match="nested too deeply to be read"):
        parse_event(b'{"type":"crawl.page","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@pytest.mark.parametrize("form", ["null", "absent", "empty"])
def test_without_data_there_is_no_page(form: str) -> None:
    """The list is empty, whether data is null, absent or empty."""
    event = vector(f"crawl.page.data_{form}", CrawlPage)

    assert event.data == []
    assert event.page is None
    assert event.model_extra == {}


def test_one_object_as_data_is_read_as_a_list() -> None:
    """Older monitor events have this form, and every family is read so."""
    assert vector("crawl.page.data_object", CrawlPage).url == "https://example.com/hours"
    assert vector("monitor.page.first_version", MonitorPage).page.status == "changed"


@pytest.mark.parametrize(("form", "count"), [("scalar", 0), ("mixed", 1)])
def test_data_with_other_things_than_objects_is_kept(form: str, count: int) -> None:
    """The list has the objects, and the whole value is in `model_extra`."""
    path = VECTORS / f"crawl.page.data_{form}.json"
    event = read(path, CrawlPage)

    assert len(event.data) == count
    assert event.model_extra == {"data": json.loads(path.read_bytes())["data"]}


@pytest.mark.parametrize("form", ["metadata_absent", "metadata_null", "error_null", "document_metadata_null"])
def test_missing_and_null_read_alike(form: str) -> None:
    """Older senders and the service's documentation write null."""
    event = vector(f"crawl.page.{form}", CrawlPage)

    assert event.metadata == {}
    assert event.error is None
    assert event.model_extra == {}
    assert event.page is not None
    assert event.page.links == []
    assert event.page.metadata == DocumentMetadata() or form != "document_metadata_null"


def test_null_ids_are_none() -> None:
    """No other value is used as an id."""
    event = vector("crawl.page.ids_null", CrawlPage)

    assert (event.job_id, event.webhook_id) == (None, None)


def test_the_id_of_a_v0_job_is_the_job_id() -> None:
    """This holds also beside an `id` of null. It is written under its own key."""
    event = vector("crawl.page.both_ids", CrawlPage)
    v0 = sample("batch_scrape.page.v0", BatchScrapePage)

    assert event.job_id == "019f2c10-0001-7a00-8b00-000000001eef"
    assert v0.job_id == v0.v0_job_id is not None
    assert v0.model_dump(by_alias=True, exclude_unset=True)["jobId"] == v0.job_id
    assert "id" not in v0.model_dump(by_alias=True, exclude_unset=True)


def test_both_forms_of_a_v0_jobs_pages_are_read() -> None:
    """Senders of August 2025 sent flat pages."""
    nested = sample("crawl.completed.v0", CrawlCompleted).data[0]
    flat = vector("crawl.completed.v0_flat", CrawlCompleted).data[0]

    assert nested.source == nested.url == "https://example.com/guides/winter"
    assert nested.markdown == nested.content is not None
    assert (flat.content, flat.markdown, flat.url) == ("Hours", "# Hours", "https://example.com/hours")


def test_unknown_keys_are_kept_at_every_level() -> None:
    """They keep their wire names, and a page's meta tag is not read as a field."""
    event = vector("crawl.page.extra_keys", CrawlPage)

    assert event.model_extra == {"sentAt": "2026-08-04T08:12:44.120Z"}
    assert event.page is not None
    assert event.page.model_extra == {"newFormat": {"a": 1}}
    assert event.page.metadata.model_extra == {"ogTitle": "Hours", "status_code": "from a meta tag"}
    assert event.status_code == 200


def test_an_envelope_of_wrong_types_is_an_event() -> None:
    """Its type is known, and all other values are kept unchanged."""
    path = VECTORS / "envelope.wrong_types.json"
    event = read(path, CrawlPage)
    payload = json.loads(path.read_bytes())

    assert (event.success, event.job_id, event.webhook_id, event.error) == (None, None, None, None)
    assert (event.data, event.metadata) == ([], {})
    assert event.model_extra == {key: value for key, value in payload.items() if key != "type"}


def test_halves_of_characters_are_kept() -> None:
    """JSON.stringify writes them when a text was cut inside of a pair."""
    event = vector("crawl.page.lone_surrogate", CrawlPage)

    assert event.error == "\ud83d"
    assert event.page is not None
    assert event.page.markdown == "Cut in half: \ud83d"
    assert event.page.metadata.title == "\udc00 first"
    assert event.page.metadata.model_extra == {"\ud83d": "half a key"}
    assert event.url == "https://example.com/hours"


def test_nul_nan_and_a_byte_order_mark_are_read() -> None:
    """NUL is a character, NaN is not a status code, and the mark is not part of the text."""
    nul = vector("crawl.page.nul", CrawlPage)
    nan = vector("crawl.page.nan", CrawlPage)

    assert nul.page is not None
    assert nul.page.markdown == "a\0b"
    assert nan.page is not None
    assert math.isnan(nan.page.json_["price"])
    assert nan.page.metadata.credits_used is not None
    assert math.isnan(nan.page.metadata.credits_used)
    assert nan.status_code is None
    assert vector("crawl.page.bom", CrawlPage).url == "https://example.com/hours"


def test_large_numbers_and_deep_nesting_are_read() -> None:
    """An event can hold everything that the parser can read."""
    number = vector("crawl.page.number_4300_digits", CrawlPage)
    deep = vector("crawl.page.deep", CrawlPage)

    assert number.status_code == int("7" * 4300)
    assert deep.page is not None
    assert deep.page.json_ is not None


def test_both_forms_of_a_diff_are_read() -> None:
    """A plain string is the text of the diff."""
    page = vector("crawl.page.diff_string", CrawlPage).page

    assert page is not None
    assert page.change_tracking is not None
    assert page.change_tracking.diff_text == "@@ -1 +1 @@\n-a\n+b\n"
    assert page.change_tracking.json_ == {"price": {"previous": 1, "current": 2}}
    assert page.change_tracking.previous_scrape_at == datetime(2026, 8, 1, 10, tzinfo=UTC)


def test_results_of_actions_are_read() -> None:
    """Each kind of result has its list."""
    page = vector("crawl.page.actions", CrawlPage).page

    assert page is not None
    assert page.actions is not None
    assert page.actions.screenshots == ["https://example.com/s.png"]
    assert page.actions.scrapes[0].html == "<p>"
    assert page.actions.javascript_returns[0].value == 4
    assert page.actions.pdfs == ["https://example.com/p.pdf"]


@for_each(
    "event_type", ["schedule.completed", "batch_scrape.cancelled", "crawl.pages", "CRAWL.PAGE", "x", " ", "\ud83d"]
)
def test_an_unknown_type_is_an_unknown_event(event_type: str) -> None:
    """Its items are kept unchanged, also if they are not objects."""
    event = parse_event(json.dumps({"type": event_type, "id": "1", "data": [{"a": 1}, 2, None]}).encode())

    assert type(event) is UnknownEvent
    assert (event.type, event.job_id, event.data) == (event_type, "1", [{"a": 1}, 2, None])


@pytest.mark.parametrize(("data", "items"), [(None, []), (5, [5]), ("x", ["x"]), ({"a": 1}, [{"a": 1}])])
def test_the_items_of_an_unknown_event_are_always_a_list(data: Any, items: list[Any]) -> None:
    """This holds for every form of `data`."""
    assert parse_event(json.dumps({"type": "new.kind", "data": data}).encode()).data == items


@for_each(
    "body",
    [
        b"",
        b"secret",
        b"\xff\xfe secret",
        b'{"type": "crawl.page", "secret": ',
        b'["secret"]',
        b'"secret"',
        b"null",
        b"{}",
        b'{"event": "secret"}',
        b'{"type": null, "a": "secret"}',
        b'{"type": "", "a": "secret"}',
        b'{"type": ["secret"]}',
        b'{"type": 5, "a": "secret"}',
    ],
)
def test_a_body_without_an_event_is_malformed(body: bytes) -> None:
    """The error says what is wrong and quotes nothing."""
    with pytest.raises(Malformed) as caught:
        parse_event(body)

    assert caught.value.status == 400
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) > 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)
envelope_keys = st.sampled_from(["success", "id", "jobId", "webhookId", "data", "error", "metadata"])
item_keys = st.sampled_from(
    [
        "markdown",
        "links",
        "metadata",
        "changeTracking",
        "json",
        "content",
        "summary",
        "pages",
        "judgment",
        "diff",
        "url",
    ]
)
any_key = st.text(st.characters()).filter(lambda key: key != "type")
items = st.dictionaries(item_keys | any_key, json_values, max_size=4)
payloads = st.dictionaries(envelope_keys | any_key, json_values | items | st.lists(items, max_size=3), max_size=6)


@given(event_type=st.sampled_from(sorted(EVENT_CLASSES)) | st.text(st.characters(), min_size=1), payload=payloads)
def test_every_object_with_a_type_is_read_and_every_key_is_kept(event_type: str, payload: dict[str, Any]) -> None:
    """Each key is a field that was set, or is in `model_extra` unchanged."""
    event = parse_event(json.dumps(payload | {"type": event_type}).encode())

    assert event.type == event_type
    assert isinstance(event.data, list)
    assert len(repr(event)) < 1000
    assert event.model_extra is not None
    fields = {field.alias: name for name, field in type(event).model_fields.items()}
    for key, value in payload.items():
        if key in event.model_extra:
            assert repr(event.model_extra[key]) == repr(value)
        else:
            assert fields[key] in event.model_fields_set


@pytest.mark.parametrize("odd", [5, None, {"a": "b"}, ["x"]])
def test_an_odd_item_does_not_empty_its_list(odd: object) -> None:
    """The other items are read, the whole list is kept, drift tells of it, and a copy is written as it came."""
    body = {
        "type": "crawl.page",
        "data": [{"links": ["a", odd, "b"], "metadata": {"title": ["Hi", odd], "sourceURL": "https://x.example"}}],
    }
    event = parse_event(json.dumps(body).encode())

    assert isinstance(event, CrawlPage)
    (page,) = event.data
    assert page.links == ["a", "b"]
    assert page.model_extra == {"links": ["a", odd, "b"]}
    assert (page.metadata.title, page.metadata.source_url) == (["Hi"], "https://x.example")
    assert {(one.kind, one.path) for one in drift_of(event)} == {
        ("form", "data[].links"),
        ("form", "data[].metadata.title"),
    }
    assert event.model_dump(by_alias=True, exclude_unset=True) == body


def test_a_list_with_many_odd_items_has_another_form() -> None:
    """A thousand are left out one by one. More would take long, so the list counts as unreadable."""
    links = ["a", *range(1_000), "b"]

    assert Document.read({"links": links}).links == ["a", "b"]
    assert Document.read({"links": [*links, 1_000]}).links == []
