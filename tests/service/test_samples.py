"""Samples: deliveries as the service makes them, with new ids, and the stories of whole jobs."""

import json
import random
import re
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.errors import ConfigurationError
from receiver.events import EVENT_CLASSES, UnknownEvent, parse_event
from receiver.service.samples import (
    encode,
    family_names,
    job_story,
    load_sample,
    near,
    new_job_id,
    sample,
    sample_names,
    set_value,
)
from tests.cases import for_each

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

every_sample = for_each("name", sample_names())
paged_families = for_each("family", ["crawl", "batch_scrape"])
every_family = for_each("family", family_names())


def rng(seed: int = 1) -> random.Random:
    return random.Random(seed)


def story(family: str, pages: int, seed: int = 1) -> list[dict[str, Any]]:
    return list(job_story(family, pages, rng(seed)))


def test_every_known_event_type_has_a_sample() -> None:
    """`receiver send` can make any event that a handler can ask for."""
    assert EVENT_CLASSES.keys() <= set(sample_names())


@every_sample
def test_a_sample_differs_from_the_recorded_one_in_its_ids_only(name: str) -> None:
    """Every key, its place and every other value are those of the service."""
    fresh = UUID.sub("ID", json.dumps(sample(name, rng=rng())))
    recorded = UUID.sub("ID", json.dumps(load_sample(name)))

    assert fresh == recorded


@every_sample
def test_two_samples_are_two_deliveries(name: str) -> None:
    """Their bodies differ, also where the hash of the body is the delivery's id."""
    randomness = rng()

    assert encode(sample(name, rng=randomness)) != encode(sample(name, rng=randomness))


@every_sample
def test_the_same_randomness_makes_the_same_sample(name: str) -> None:
    """A seed repeats a delivery byte by byte."""
    assert encode(sample(name, rng=rng(7))) == encode(sample(name, rng=rng(7)))


@every_sample
def test_a_sample_with_a_webhook_id_gets_a_new_one(name: str) -> None:
    """It is a UUID of version 4. Samples of older senders have none."""
    recorded, fresh = load_sample(name), sample(name, rng=rng())

    assert ("webhookId" in fresh) == ("webhookId" in recorded)
    if "webhookId" in fresh:
        assert uuid.UUID(fresh["webhookId"]).version == 4
        assert fresh["webhookId"] != recorded["webhookId"]


def test_the_legacy_sample_has_no_webhook_id() -> None:
    """It stands for senders before September 2025."""
    assert "webhookId" not in sample("crawl.page.legacy", rng=rng())


@every_sample
def test_a_sample_can_belong_to_a_given_job(name: str) -> None:
    """The job's id stands under the sender's own key, `id` or `jobId`. Samples without a job id get none."""
    fresh = sample(name, rng=rng(), job_id="job-1")
    carriers = {"id", "jobId"} & load_sample(name).keys()

    assert {key: fresh[key] for key in carriers} == dict.fromkeys(carriers, "job-1")
    assert {"id", "jobId"} & fresh.keys() == carriers


@for_each("name", [name for name in sample_names() if name.startswith("monitor.")])
def test_a_monitor_sample_has_one_check_id(name: str) -> None:
    """The envelope's id is the check's id. The monitor's id is the recorded one."""
    fresh, recorded = sample(name, rng=rng()), load_sample(name)
    data = fresh["data"] if isinstance(fresh["data"], dict) else fresh["data"][0]

    assert data["checkId"] == fresh["id"] != recorded["id"]
    assert data["monitorId"] in json.dumps(recorded)


def test_an_extraction_sample_has_one_job_id() -> None:
    """`extractId` equals the envelope's id."""
    fresh = sample("extract.completed", rng=rng())

    assert fresh["data"][0]["extractId"] == fresh["id"]


def test_a_page_sample_has_a_new_scrape_id() -> None:
    """Two pages of a job are two scrapes."""
    fresh = sample("crawl.page", rng=rng())["data"][0]["metadata"]["scrapeId"]

    assert fresh != load_sample("crawl.page")["data"][0]["metadata"]["scrapeId"]
    assert uuid.UUID(fresh).version == 7


def test_a_job_id_is_a_uuid_of_version_7() -> None:
    """The service makes such ids now."""
    made = uuid.UUID(new_job_id(rng()))

    assert (made.version, made.variant) == (7, uuid.RFC_4122)


@every_sample
def test_every_sample_is_read_as_the_event_of_its_name(name: str) -> None:
    """The name of a sample begins with its type."""
    event = parse_event(encode(sample(name, rng=rng())))

    assert name.startswith(event.type)
    assert type(event) is EVENT_CLASSES.get(event.type, UnknownEvent)


def test_an_unknown_sample_name_suggests_similar_ones() -> None:
    """So a typing error is easy to fix."""
    with pytest.raises(ConfigurationError, match=r"'crawl\.pgae'; did you mean crawl\.page"):
        load_sample("crawl.pgae")


def test_the_members_of_a_known_family_are_suggested() -> None:
    """This holds also if the rest of the name resembles none of them."""
    assert near("agent.zzzzzzzzzz", ["agent.started", "crawl.page"]) == "; did you mean agent.started?"
    assert near("zzzzzzz", ["agent.started", "crawl.page"]) == ""


@every_family
def test_a_story_is_one_job(family: str) -> None:
    """All its events are of one family and carry one job id, each under a webhookId of its own."""
    events = story(family, 12)

    assert {event["id"] for event in events} == {events[0]["id"]}
    assert len({event["webhookId"] for event in events}) == len(events)
    assert {event["type"].partition(".")[0] for event in events} == {family}


@every_family
def test_every_event_of_a_story_is_known(family: str) -> None:
    """No event is an UnknownEvent or has values of an undocumented form."""
    for payload in story(family, 25):
        event = parse_event(encode(payload))
        assert type(event) is EVENT_CLASSES[payload["type"]]
        assert not event.model_extra


@every_family
@for_each("pages", [0, 1])
def test_a_story_may_have_no_page(family: str, pages: int) -> None:
    """A job without pages has its start and its end; a check has only its end."""
    ends = 1 if family == "monitor" else 2

    assert len(story(family, pages)) == (2 if family == "extract" else pages + ends)


@paged_families
def test_the_pages_of_a_story_differ_in_address_title_and_text(family: str) -> None:
    """A handler that writes a file per page writes as many files as there are good pages."""
    events = story(family, 300)
    pages = [event["data"][0] for event in events if event["type"] == f"{family}.page"]
    good = [page for page in pages if page["metadata"].get("statusCode") == 200]

    assert [events[0]["type"], events[-1]["type"]] == [f"{family}.started", f"{family}.completed"]
    assert len({page["metadata"]["sourceURL"] for page in pages}) == 300
    assert len({page["metadata"]["title"] for page in good}) == len(good) > 200
    assert len({page["markdown"] for page in good}) == len(good)
    assert all(page["markdown"].startswith(f"# {page['metadata']['title']}\n") for page in good)


@paged_families
def test_a_story_of_twenty_pages_has_errors_and_a_page_that_was_not_found(family: str) -> None:
    """Two pages fail. One page answered 404, which is a success with a document."""
    pages = [event for event in story(family, 20) if event["type"] == f"{family}.page"]
    failed = [page for page in pages if not page["success"]]
    missing = [page for page in pages if page["data"][0]["metadata"].get("statusCode") == 404]

    assert (len(failed), len(missing)) == (2, 1)
    assert all(page["error"] and page["data"][0].keys() == {"metadata"} for page in failed)
    assert missing[0]["success"]


def test_a_check_counts_the_pages_that_came_before_it() -> None:
    """With errors among its pages a check is partial, and has no error of its own."""
    *pages, check = story("monitor", 24)
    summary = check["data"][0]["summary"]
    statuses = [page["data"][0]["status"] for page in pages]

    assert summary == {
        "totalPages": 24,
        "removed": 0,
        **{status: statuses.count(status) for status in ("same", "changed", "new", "error")},
    }
    assert min(summary[status] for status in ("same", "changed", "new", "error")) > 0
    assert (check["data"][0]["status"], check["success"], "error" in check) == ("partial", False, False)


def test_a_check_without_faulty_pages_is_completed() -> None:
    """Success is true only when no page failed."""
    check = story("monitor", 3)[-1]

    assert (check["data"][0]["status"], check["success"]) == ("completed", True)


def test_an_agents_credits_grow_up_to_the_final_number() -> None:
    """Each action has a running estimate."""
    _, *actions, completed = story("agent", 5)
    credits_used = [action["data"][0]["creditsUsed"] for action in actions]

    assert credits_used == sorted(set(credits_used))
    assert completed["data"][0]["creditsUsed"] == credits_used[-1]


def test_an_unknown_family_is_refused_before_the_first_event() -> None:
    """The error does not wait until the story is read."""
    with pytest.raises(ConfigurationError, match="'crwal'; known are crawl, batch_scrape"):
        job_story("crwal", 1, rng())


@for_each(
    ("path", "read"),
    [
        ("success", lambda p: p["success"]),
        ("data.0.metadata.statusCode", lambda p: p["data"][0]["metadata"]["statusCode"]),
        ("data.0.links.2", lambda p: p["data"][0]["links"][2]),
        ("data.0", lambda p: p["data"][0]),
        ("data.0.metadata.newKey", lambda p: p["data"][0]["metadata"]["newKey"]),
        ("error", lambda p: p["error"]),
    ],
)
def test_a_value_is_set_at_its_path(path: str, read: Any) -> None:
    """Keys and indexes lead to it; the last key may be new."""
    payload = load_sample("crawl.page")

    set_value(payload, path, 418)

    assert read(payload) == 418


@for_each(
    ("path", "expected"),
    [
        ("data.0.metdata.statusCode", "data.0 has no 'metdata'; it has markdown, links, metadata"),
        ("data.1.markdown", "data is a list of 1 and has no '1'"),
        ("data.-1.markdown", "data is a list of 1 and has no '-1'"),
        ("data.²", "data is a list of 1 and has no '²'"),
        ("data.markdown", "data is a list of 1 and has no 'markdown'"),
        ("success.deep", "success is neither an object nor a list, so it has no 'deep'"),
        ("nowhere.deep", "the payload has no 'nowhere'"),
        ("", "the payload has no ''"),
        ("metadata.", "metadata has no ''"),
    ],
)
def test_a_wrong_path_names_the_part_that_does_not_exist(path: str, expected: str) -> None:
    """The payload stays unchanged."""
    payload = load_sample("crawl.page")

    with pytest.raises(ConfigurationError) as caught:
        set_value(payload, path, 1)

    assert expected in str(caught.value)
    assert payload == load_sample("crawl.page")


@for_each(
    ("value", "encoded"),
    [
        ({"a": [1, None, True, "x"]}, b'{"a":[1,null,true,"x"]}'),
        ("café ⏱ 🚲", '"café ⏱ 🚲"'.encode()),
        ("cut \ud83d here", b'"cut \\ud83d here"'),
        ('"\\\n\t\x00\x1b\x7f', b'"\\"\\\\\\n\\t\\u0000\\u001b\x7f"'),
        ("\u2028", '"\u2028"'.encode()),
    ],
)
def test_bytes_are_those_of_json_stringify(value: object, encoded: bytes) -> None:
    """Expected values are what Node's JSON.stringify gives (well-formed since ES2019)."""
    assert encode(value) == encoded


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_valid_utf_8_with_the_same_meaning(text: str) -> None:
    """Two halves of a pair side by side are read as one character."""
    read = json.loads(encode(text).decode("utf-8"))

    assert read.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


@for_each("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_have_is_refused(number: float) -> None:
    """Other programs could not read such a body."""
    with pytest.raises(ValueError, match="JSON"):
        encode({"a": number})
