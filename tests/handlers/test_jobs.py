"""The summary of a job, for every kind of job, page and ending."""

from datetime import timedelta
from pathlib import Path

import pytest

from handlers import jobs, tally
from handlers.pages import worth_a_file
from receiver import parse_event
from receiver.events import PageEvent
from receiver.service.samples import encode, load_sample, sample_names
from tests.handlers.deliveries import NOON, fresh_output, handle, payload, wanted_by
from tests.handlers.summaries import JOB, header_of, page, pages_in, summary_of


def test_a_job_has_a_summary_for_programs_and_people(output: Path) -> None:
    """What arrived, how the pages turned out, what went wrong, and what the job was for."""
    story = [
        payload("crawl.started"),
        page("crawl.page", "https://example.com/prices"),
        page("crawl.page.404", "https://example.com/winter-offer"),
        page("crawl.page.error", "https://example.com/old/brochure.zip"),
        payload("crawl.completed"),
    ]
    for second, event in enumerate(story):
        handle(jobs.router, event, at=NOON + timedelta(seconds=second))

    assert (
        summary_of(output)
        == f"""---
family: "crawl"
job_id: "{JOB}"
state: "completed"
started: true
first_arrival: "2026-08-04T12:00:00.000000+00:00"
last_arrival: "2026-08-04T12:00:04.000000+00:00"
pages_good: 1
pages_error_status: 1
pages_failed: 1
pages_empty: 0
pages_cancelled: 0
---

# Crawl {JOB}: completed

| Pages | |
| --- | ---: |
| good | 1 |
| error status | 1 |
| failed | 1 |
| empty | 0 |
| cancelled | 0 |

| Event | Deliveries | First | Last |
| --- | ---: | --- | --- |
| crawl.started | 1 | 2026-08-04 12:00:00 UTC | 2026-08-04 12:00:00 UTC |
| crawl.page | 3 | 2026-08-04 12:00:01 UTC | 2026-08-04 12:00:03 UTC |
| crawl.completed | 1 | 2026-08-04 12:00:04 UTC | 2026-08-04 12:00:04 UTC |

## Last problems

- <https://example.com/old/brochure.zip>: Scrape resulted in unsupported file: application/zip
- <https://example.com/winter-offer>: 404 Not Found

## Metadata

- customer: harbour-cycles
- environment: production
"""
    )


def test_a_job_without_pages_says_why_it_failed(output: Path) -> None:
    """An extract job's summary has its error and no table of pages."""
    handle(jobs.router, payload("extract.failed"))

    (path,) = (output / "jobs").glob("*.md")
    summary = path.read_text(encoding="utf-8")
    assert header_of(summary)["state"] == "failed"
    assert f"**extract.failed**: {load_sample('extract.failed')['error']}" in summary
    assert "Pages" not in summary


@pytest.mark.parametrize(
    ("types", "state"),
    [
        (["crawl.started"], "running"),
        (["crawl.page"], "running"),
        (["crawl.completed"], "completed"),
        (["crawl.completed", "crawl.failed"], "failed"),
        (["crawl.cancelled", "crawl.completed"], "cancelled"),
        (["crawl.page.cancelled", "crawl.completed"], "cancelled"),
    ],
)
def test_the_state_is_read_from_all_that_arrived(output: Path, types: list[str], state: str) -> None:
    """The service ends a cancelled job as completed, so its waiting pages count too, in either order."""
    for event in reversed(types):
        handle(jobs.router, payload(event))

    assert header_of(summary_of(output))["state"] == state


def test_a_job_whose_start_was_lost_says_so(output: Path) -> None:
    """Events go missing, and page events come before the start."""
    handle(jobs.router, payload("crawl.page"))
    assert header_of(summary_of(output))["started"] == "false"

    handle(jobs.router, payload("crawl.started"))
    assert header_of(summary_of(output))["started"] == "true"


def test_a_cancelled_job_counts_its_waiting_pages_apart(output: Path) -> None:
    """They are not among the problems."""
    for number in range(3):
        handle(jobs.router, page("crawl.page.cancelled", f"https://example.com/{number}"))

    assert pages_in(output)["cancelled"] == "3"
    assert "Last problems" not in summary_of(output)


@pytest.mark.parametrize("order", [1, -1])
def test_a_page_counts_once_with_its_best_outcome(output: Path, order: int) -> None:
    """A page can succeed and fail under one URL. If it was good once, it is not a problem."""
    url = "https://example.com/prices"
    for name in ["crawl.page.cancelled", "crawl.page.error", "crawl.page.404", "crawl.page"][::order]:
        handle(jobs.router, page(name, url))

    assert pages_in(output) == {"good": "1", "error_status": "0", "failed": "0", "empty": "0", "cancelled": "0"}
    assert "Last problems" not in summary_of(output)


def test_pages_without_a_document_are_counted_by_delivery(output: Path) -> None:
    """Nothing else tells them apart."""
    for key in ("one", "two", "two"):
        handle(jobs.router, payload("crawl.page", data=[], webhookId=key))

    assert pages_in(output)["empty"] == "2"


@pytest.mark.parametrize("job_id", ["../../etc/passwd", "A", "a/b", "con", "x" * 300, "\ud83d", "é"])
def test_any_job_id_is_a_file_in_the_folder(output: Path, job_id: str) -> None:
    """No two ids share a file."""
    handle(jobs.router, payload("crawl.started", id=job_id))
    handle(jobs.router, payload("crawl.started", id=job_id.swapcase() + "2"))

    files = [path for path in output.rglob("*.md") if path.is_file()]
    assert len(files) == 2
    assert {path.parent for path in files} == {output / "jobs"}


def test_texts_from_outside_stay_on_their_line() -> None:
    """No error text, URL or metadata can add a heading, a table row, a tag or a front-matter field."""
    hostile = "x\n# heading\n---\n| a | b |\n<script>\x1b[31m\ud83d`*_" + "y" * 1000
    summaries = []
    for text in ("harmless", hostile):
        with fresh_output() as output:
            error = page("crawl.page.error", f"https://example.com/<b> {text}", error=text)
            handle(jobs.router, error | {"metadata": {text: text}})
            handle(jobs.router, payload("crawl.failed", error=text))
            summaries.append(summary_of(output))

    harmless, summary = summaries
    assert len(summary.splitlines()) == len(harmless.splitlines())
    assert "<script>" not in summary.replace("\\<script\\>", "").replace("%3Cscript%3E", "")
    assert "\x1b" not in summary


def test_a_new_kind_of_event_of_a_known_family_is_counted(output: Path) -> None:
    """New types appear without notice."""
    handle(jobs.router, payload("crawl.started", type="crawl.paused"))

    assert "| crawl.paused | 1 |" in summary_of(output)


def test_an_event_without_a_job_and_a_monitors_event_have_no_summary() -> None:
    """Checks of monitors come by the thousand, and people are told of them."""
    assert wanted_by(jobs.router, payload("crawl.started", id=None)) == []
    assert wanted_by(jobs.router, payload("monitor.page")) == []


@pytest.mark.parametrize("name", [name for name in sample_names() if ".page" in name and "monitor" not in name])
def test_a_page_is_good_exactly_when_it_becomes_a_file(name: str) -> None:
    """The summary and the folder of pages agree."""
    event = parse_event(encode(payload(name)))
    assert isinstance(event, PageEvent)

    outcome, _ = jobs.outcome_of(event)

    assert (outcome is tally.Outcome.GOOD) == worth_a_file(event)
