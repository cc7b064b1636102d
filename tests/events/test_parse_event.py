"""Reading events: every recorded payload."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel

from receiver.events import (
    EVENT_CLASSES,
    AgentAction,
    AgentCompleted,
    BatchScrapePage,
    CrawlPage,
    ExtractCompleted,
    MonitorCheckCompleted,
    MonitorPage,
    UnknownEvent,
    parse_event,
)
from receiver.events.documents import DocumentMetadata, ValueChange
from tests.cases import for_each
from tests.events.recorded import SAMPLES, VECTORS, sample

META_TAGS = {"viewport", "ogTitle", "ogUrl", "ogSiteName", "ogLocale", "favicon"}

every_sample = for_each("path", sorted(SAMPLES.glob("*.json")))


def unknown_keys(value: object) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the unknown keys at every level."""
    if isinstance(value, BaseModel):
        yield from ((type(value), key) for key in value.model_extra or {})
        for name in type(value).model_fields:
            yield from unknown_keys(getattr(value, name))
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from unknown_keys(item)


def test_there_are_samples_and_vectors() -> None:
    """An empty folder would let every test of this file pass."""
    assert len(list(SAMPLES.glob("*.json"))) >= 38
    assert len(list(VECTORS.glob("*.json"))) >= 25


@every_sample
def test_a_sample_is_read_as_the_class_of_its_type(path: Path) -> None:
    """The envelope's fields have the values of the sample."""
    payload = json.loads(path.read_bytes())
    event = parse_event(path.read_bytes())

    assert type(event) is EVENT_CLASSES.get(payload["type"], UnknownEvent)
    assert event.type == payload["type"]
    assert event.success is payload.get("success")
    assert event.job_id == payload.get("id", payload.get("jobId"))
    assert event.webhook_id == payload.get("webhookId")
    assert event.error == payload.get("error")
    assert event.metadata == payload.get("metadata", {})
    data = payload.get("data", [])
    assert len(event.data) == (len(data) if isinstance(data, list) else 1)


@every_sample
def test_a_sample_has_no_unknown_keys(path: Path) -> None:
    """Exceptions are the meta tags of pages and payloads of another family."""
    event = parse_event(path.read_bytes())
    unknown = set(unknown_keys(event))

    if isinstance(event, UnknownEvent):
        assert unknown == {(UnknownEvent, key) for key in ("batchId", "sentAt", "events")}
    else:
        assert unknown <= {(DocumentMetadata, tag) for tag in META_TAGS}


@every_sample
def test_a_sample_goes_back_to_the_wire_as_it_came(path: Path) -> None:
    """Same keys and values, but for: one object as data is a list of it, moments are written in one way, and a
    v0 job's pages are flat.
    """
    payload = json.loads(path.read_bytes())
    if isinstance(payload.get("data"), dict):
        payload["data"] = [payload["data"]]
    for item in payload.get("data", []):
        if "content" in item:
            item.update(item.pop("content"))
        for holder, key in (
            (item.get("metadata", {}), "cachedAt"),
            (item.get("changeTracking", {}), "previousScrapeAt"),
        ):
            if key in holder:
                holder[key] = datetime.fromisoformat(holder[key]).astimezone(UTC)

    assert parse_event(path.read_bytes()).model_dump(by_alias=True, exclude_unset=True) == payload


@every_sample
def test_a_sample_is_written_as_json(path: Path) -> None:
    """It is written without a warning, and reading it gives an equal event."""
    event = parse_event(path.read_bytes())

    written = event.model_dump_json(by_alias=True, exclude_unset=True)

    assert json.loads(written) == event.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert parse_event(written.encode()) == event
    assert json.loads(event.model_dump_json()) == event.model_dump(mode="json")


def test_a_page_event_has_its_document() -> None:
    """All its parts are read, also the metadata."""
    event = sample("crawl.page", CrawlPage)

    assert event.page is not None
    assert event.page.markdown is not None
    assert event.page.markdown.startswith("# Service prices")
    assert event.page.links[0] == "https://example.com/book"
    assert event.page.metadata.keywords == "bike repair,service prices"
    assert event.page.metadata.model_extra is not None
    assert event.page.metadata.model_extra["ogSiteName"] == "Harbour Cycles"
    assert (event.url, event.status_code, event.failed) == ("https://example.com/prices", 200, False)


def test_change_tracking_is_read_to_the_last_line() -> None:
    """The unified diff and its tree are both read."""
    page = sample("crawl.page.changetracking", CrawlPage).page

    assert page is not None
    assert page.change_tracking is not None
    assert page.change_tracking.previous_scrape_at == datetime(2026, 8, 1, 10, tzinfo=UTC)
    assert (page.change_tracking.change_status, page.change_tracking.visibility) == ("changed", "visible")
    diff = page.change_tracking.diff
    assert diff is not None
    assert diff.text == page.change_tracking.diff_text
    assert diff.json_ is not None
    chunk = diff.json_.files[0].chunks[0]
    assert [(line.type, line.normal, line.del_, line.add) for line in chunk.changes] == [
        ("normal", True, None, None),
        ("del", None, True, None),
        ("add", None, None, True),
    ]
    assert (chunk.old_start, chunk.old_lines, chunk.new_start, chunk.new_lines) == (1, 4, 1, 4)


@pytest.mark.parametrize(
    ("name", "event_class", "url", "cancelled"),
    [
        ("crawl.page.error", CrawlPage, "https://example.com/old/brochure.zip", False),
        ("crawl.page.cancelled", CrawlPage, "https://example.com/guides/chain", True),
        ("batch_scrape.page.error", BatchScrapePage, "https://shop.example.com/checkout", False),
        ("batch_scrape.page.v0", BatchScrapePage, "https://example.com/guides/tyres", False),
    ],
)
def test_a_failed_page_has_its_url(
    name: str, event_class: type[CrawlPage] | type[BatchScrapePage], url: str, cancelled: bool
) -> None:
    """Only the URL and the error are known."""
    event = sample(name, event_class)

    assert event.failed
    assert event.cancelled_by_parent is cancelled
    assert event.url == url


def test_a_truncated_pdf_has_both_page_counts() -> None:
    """It has more pages than were parsed."""
    page = sample("batch_scrape.page.pdf", BatchScrapePage).page

    assert page is not None
    assert (page.metadata.num_pages, page.metadata.total_pages) == (12, 48)


def test_a_monitored_page_has_judgment_and_diff() -> None:
    """The diff is a text, or values by their path in JSON mode."""
    page = sample("monitor.page", MonitorPage).page
    values = sample("monitor.page.json", MonitorPage).page

    assert page.is_meaningful is True
    assert page.judgment is not None
    assert (page.judgment.confidence, page.judgment.meaningful) == ("high", True)
    assert page.judgment.meaningful_changes[0].after == "Gear tune | £21"
    assert page.diff is not None
    assert page.diff.text is not None
    assert page.diff.json_ == {}
    assert values.diff is not None
    assert values.diff.json_["jobs[1].price"] == ValueChange(previous=18, current=21)


@pytest.mark.parametrize("name", ["", ".object", ".object_pages"])
def test_a_check_has_its_summary_in_every_form(name: str) -> None:
    """`data` is a list of one check, or an object from the oldest senders."""
    event = sample(f"monitor.check.completed{name}", MonitorCheckCompleted)

    assert event.check.summary.changed > 0
    assert event.check.check_id == event.job_id
    assert len(event.check.pages) == (2 if name == ".object_pages" else 0)


def test_a_partial_check_has_success_false_and_no_error() -> None:
    """This is normal when some pages failed."""
    event = sample("monitor.check.completed.partial", MonitorCheckCompleted)

    assert (event.success, event.error, event.check.status) == (False, None, "partial")


def test_results_of_extract_and_agent_jobs_are_read() -> None:
    """Their data can be any JSON."""
    result = sample("extract.completed", ExtractCompleted).result
    step = sample("agent.action", AgentAction).action
    found = sample("agent.completed", AgentCompleted).result

    assert result.data["shop"] == "Harbour Cycles"
    assert result.sources["jobs[0].price"] == ["https://example.com/prices"]
    assert (result.llm_usage, result.total_urls_scraped) == (0.0020118, 2)
    assert (step.action, step.credits_used) == ("mcp__tools__scrape", 5)
    assert step.input["formats"] == ["markdown"]
    assert (found.credits_used, found.data["founded"]) == (15, 2011)
