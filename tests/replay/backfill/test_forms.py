"""Tests that imported events have the form of the samples of webhooks."""

import json
from typing import Any

import pytest

from receiver.core.envelope import read_envelope
from receiver.events import parse_event
from receiver.events.identity import subject_key
from receiver.service.samples import load_sample
from tests.doubles import NOON
from tests.replay.backfill.conftest import Open
from tests.replay.backfill.world import Service, crawl, sent

PAGES = ["crawl.page", "crawl.page.404", "crawl.page.changetracking", "batch_scrape.page", "batch_scrape.page.pdf"]
FAILED = ["crawl.page.error", "crawl.page.cancelled", "batch_scrape.page.error"]
CHECKED = ["monitor.page", "monitor.page.error", "monitor.page.json", "monitor.page.new", "monitor.page.same"]
PATHS = {"crawl": "crawl", "batch_scrape": "batch/scrape"}


async def made_like(open_world: Open, service: Service, sample: dict[str, Any], monitor: str | None) -> Any:
    """Return the event that a backfill makes for a sample if only the start of its job has arrived."""
    world = open_world(service)
    begun = {"type": f"{sample['type'].partition('.')[0]}.started", "id": sample["id"], "success": True}
    if sample.get("metadata"):
        begun["metadata"] = sample["metadata"]
    await world.add(read_envelope((), json.dumps(begun).encode(), received_at=NOON))
    world.job_id = sample["id"]
    await world.backfill(monitor_id=monitor)
    return next(one for one in await world.made() if one["type"] == sample["type"])


def in_form(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample without its webhook id and without empty metadata, as a backfill makes it."""
    kept = {name: value for name, value in sample.items() if name != "webhookId"}
    return kept if kept.get("metadata") else {name: value for name, value in kept.items() if name != "metadata"}


@pytest.mark.parametrize("name", PAGES + FAILED)
async def test_a_page_is_made_as_the_sender_makes_it(open_world: Open, name: str) -> None:
    """All keys and values are equal and in the same order.

    Only the webhook id is our own: it is the delivery's key.
    """
    sample = load_sample(name)
    family = sample["type"].partition(".")[0]
    documents, errors = (sample["data"], []) if name in PAGES else ([], [_failure(sample)])
    service = crawl(*documents, errors=errors, path=PATHS[family], job_id=sample["id"])

    made = await made_like(open_world, service, sample, None)

    assert made.pop("webhookId") == subject_key(parse_event(json.dumps(sample).encode()))
    assert json.dumps(made) == json.dumps(in_form(sample))


def _failure(sample: dict[str, Any]) -> dict[str, Any]:
    url = sample["data"][0]["metadata"]["sourceURL"]
    return {"id": "x", "timestamp": "2026-08-04T12:00:00Z", "url": url, "error": sample["error"]}


@pytest.mark.parametrize("name", CHECKED)
async def test_a_checked_page_is_made_as_the_sender_makes_it(open_world: Open, name: str) -> None:
    """It has only fields of the webhook. Keys that are null in the sample may be missing."""
    sample = load_sample(name)
    (item,) = sample["data"]
    record = {"id": "p", "targetId": "t", "statusCode": 200, "createdAt": "2026-08-04T12:00:00Z", **item}
    for inside in ("monitorId", "checkId", "isMeaningful"):
        del record[inside]
    check = {"id": sample["id"], "monitorId": item["monitorId"], "status": "completed", "pages": [record]}
    path = f"/v2/monitor/{item['monitorId']}/checks/{sample['id']}"

    made = await made_like(open_world, Service({path: {"data": check}}), sample, item["monitorId"])

    assert made.pop("webhookId") == subject_key(parse_event(json.dumps(sample).encode()))
    assert made == in_form(sample)


async def test_success_and_failure_of_a_url_are_two_events(open_world: Open) -> None:
    """The page has no scrape id; it succeeded first and failed later."""
    plain = {"markdown": "a", "metadata": {"sourceURL": "https://example.com/bad"}}
    world = open_world(crawl(plain, errors=[{"url": "https://example.com/bad", "error": "Timed out"}]))
    await world.add(sent("crawl.page", "w1", [plain]))

    assert (await world.compare()).counts == {"crawl.page": 1, "crawl.completed": 1}
