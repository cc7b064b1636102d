"""Tests of finding and importing missing events, with an OpenStore and fixed answers of the service."""

import json
from typing import Any

import pytest

from receiver.core.activity import PruneRule
from receiver.core.claims import Lease
from receiver.core.types import AppendOutcome, Origin, WorkerId
from receiver.errors import NotComparable, NotFound, NotOver, ServerError, UnexpectedAnswer
from receiver.events import CrawlPage, parse_event
from tests.doubles import NOON
from tests.replay.backfill.conftest import Open
from tests.replay.backfill.world import JOB, Service, crawl, document, sent

FAILURE = {"id": "x", "url": "https://example.com/bad", "code": "SCRAPE_TIMEOUT", "error": "Scrape timed out"}
MONITOR = "019f2c10-0005-7a00-8b00-000000009aab"
CHECK_PATH = f"/v2/monitor/{MONITOR}/checks/{JOB}"


async def test_only_missing_events_are_imported(open_world: Open) -> None:
    """The scrape id identifies a page, not the webhook id. The end of the job is missing too."""
    world = open_world(crawl(document(1), document(2)))
    await world.add(sent("crawl.page", "w1", [document(1)], metadata={"customer": "a"}))

    missing = await world.compare()

    assert (missing.produced, missing.counts) == (3, {"crawl.page": 1, "crawl.completed": 1})
    assert await world.import_deliveries(missing) == {AppendOutcome.ACCEPTED: 2}
    page, end = await world.made()
    key = page.pop("webhookId")
    assert page == {
        "success": True,
        "type": "crawl.page",
        "id": JOB,
        "data": [document(2)],
        "metadata": {"customer": "a"},
    }
    assert {**end, "webhookId": ""} == {
        "success": True,
        "type": "crawl.completed",
        "id": JOB,
        "webhookId": "",
        "data": [],
        "metadata": {"customer": "a"},
    }
    delivery = (await world.stored())[1]
    assert (delivery.key, delivery.origin, delivery.received_at) == (key, Origin.BACKFILL, NOON)
    assert ("x-receiver-origin", "backfill") in delivery.headers
    assert isinstance(parse_event(delivery.body), CrawlPage)


async def test_a_body_has_the_sender_s_keys_in_the_sender_s_order(open_world: Open) -> None:
    """It has all fields of the answer, also unknown ones. If no event has metadata, it has none."""
    odd = {**document(1), "aNewKey": {"a": [None]}, "markdown": "caf\u00e9 \ud800"}
    world = open_world(crawl(odd))
    await world.add(sent("crawl.started", "w0"))

    await world.backfill()

    body = (await world.stored())[1].body
    assert list(json.loads(body)) == ["success", "type", "id", "webhookId", "data"]
    assert json.loads(body)["data"] == [odd]


async def test_a_second_import_changes_nothing(open_world: Open) -> None:
    """Imported events are recognised like events that were sent."""
    world = open_world(crawl(document(1), document(2), errors=[FAILURE]))
    await world.add(sent("crawl.started", "w0"))
    first = await world.compare()
    late = await world.compare()  # as by somebody else at the same time

    assert await world.import_deliveries(first) == {AppendOutcome.ACCEPTED: 4}
    assert await world.import_deliveries(late) == {}
    assert (await world.compare()).count == 0
    assert len(await world.stored()) == 5


async def test_a_webhook_that_arrives_after_the_plan_is_not_imported(open_world: Open) -> None:
    """A webhook may arrive between the plan and its confirmation."""
    world = open_world(crawl(document(1), document(2)))
    await world.add(sent("crawl.started", "w0"))
    missing = await world.compare()
    await world.add(sent("crawl.page", "w2", [document(2)]))

    assert await world.import_deliveries(missing) == {AppendOutcome.ACCEPTED: 2}
    assert [one["type"] for one in await world.made()] == ["crawl.page", "crawl.completed"]


@pytest.mark.parametrize(("family", "path"), [("crawl", "crawl"), ("batch_scrape", "batch/scrape")])
async def test_a_failed_page_is_identified_by_its_url(open_world: Open, family: str, path: str) -> None:
    """If a page succeeds first and fails later, these are two events."""
    other = FAILURE | {"url": "https://example.com/1"}
    world = open_world(crawl(document(1), errors=[FAILURE, other], path=path))
    failed = [{"metadata": {"sourceURL": "https://example.com/bad"}}]
    await world.add(
        sent(f"{family}.page", "w1", [document(1)]),
        sent(f"{family}.page", "w2", failed, success=False, error="Scrape timed out"),
        sent(f"{family}.completed", "w3"),
    )

    await world.backfill()

    (made,) = await world.made()
    assert {**made, "webhookId": ""} == {
        "success": False,
        "type": f"{family}.page",
        "id": JOB,
        "webhookId": "",
        "data": [{"metadata": {"sourceURL": "https://example.com/1"}}],
        "error": "Scrape timed out",
    }


async def test_a_page_without_scrape_id_is_identified_by_its_url(open_world: Open) -> None:
    """A page with neither is counted and skipped."""
    plain = {"markdown": "a", "metadata": {"sourceURL": "https://example.com/a"}}
    world = open_world(crawl(plain, plain, {"markdown": "b"}))
    await world.add(sent("crawl.page", "w1", [plain]), sent("crawl.completed", "w2"))

    missing = await world.compare()

    assert (missing.count, missing.unclear) == (0, 1)


async def test_all_pages_of_the_answer_are_read(open_world: Open) -> None:
    """The field `next` links them."""
    service = crawl(document(1))
    path = f"/v2/crawl/{JOB}"
    service.answers[path] = service.answers[path] | {"next": f"https://elsewhere.example{path}?skip=1"}
    service.answers[f"{path}?skip=1"] = {"status": "completed", "data": [document(2)]}
    world = open_world(service)

    assert (await world.compare(family="crawl")).counts == {"crawl.page": 2, "crawl.completed": 1}


async def test_only_the_selected_types_are_imported(open_world: Open) -> None:
    """This is for jobs whose webhook did not ask for pages."""
    world = open_world(crawl(document(1)))

    assert (await world.compare(family="crawl", wanted="*.completed")).counts == {"crawl.completed": 1}


@pytest.mark.parametrize(
    ("status", "kind", "success"),
    [
        ("completed", "crawl.completed", True),
        ("cancelled", "crawl.completed", True),
        ("failed", "crawl.failed", False),
    ],
)
async def test_the_end_of_a_crawl_is_the_event_that_its_webhook_would_send(
    open_world: Open, status: str, kind: str, success: bool
) -> None:
    """A cancelled crawl ends as completed."""
    world = open_world(crawl(status=status))

    await world.backfill(family="crawl")

    (made,) = await world.made()
    assert (made["type"], made["success"], made["data"]) == (kind, success, [])


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        (
            {"status": "completed", "data": {"a": 1}, "sources": {"a": ["u"]}, "tokensUsed": 5},
            "extract.completed",
            {"data": [{"success": True, "data": {"a": 1}, "extractId": JOB, "sources": {"a": ["u"]}}]},
        ),
        (
            {"success": False, "status": "failed", "error": "no"},
            "extract.failed",
            {"success": False, "data": [], "error": "no"},
        ),
        (
            {"status": "completed", "data": {"a": 1}, "creditsUsed": 15, "model": "m"},
            "agent.completed",
            {"data": [{"creditsUsed": 15, "data": {"a": 1}}]},
        ),
        (
            {"status": "failed", "error": "Max credits", "creditsUsed": 8},
            "agent.failed",
            {"success": False, "data": [{"creditsUsed": 8}], "error": "Max credits"},
        ),
        (
            {"status": "cancelled", "creditsUsed": 8},
            "agent.cancelled",
            {"success": False, "data": [{"creditsUsed": 8}]},
        ),
    ],
)
async def test_the_result_of_an_extraction_or_an_agent_is_its_last_event(
    open_world: Open, answer: dict[str, Any], kind: str, expected: dict[str, Any]
) -> None:
    """The event has the same form as the webhook."""
    family = kind.partition(".")[0]
    world = open_world(Service({f"/v2/{family}/{JOB}": {"success": True, **answer}}))

    await world.backfill(family=family)

    (made,) = await world.made()
    del made["webhookId"]
    assert made == {"success": True, "type": kind, "id": JOB, **expected}
    assert (await world.compare(family=family)).count == 0


def checked(number: int, status: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"p{number}",
        "targetId": "t",
        "url": f"https://example.com/{number}",
        "status": status,
        "previousScrapeId": "a",
        "currentScrapeId": "b",
        "statusCode": 200,
        "error": None,
        "judgment": None,
        "diff": None,
        **more,
    }


async def test_a_check_has_an_event_for_each_page_that_was_not_removed(open_world: Open) -> None:
    """The event has the webhook's form: without the tree of files, and with the judgment if there is one."""
    judgment = {"meaningful": True, "confidence": "high"}
    diff = {"text": "+a", "json": {"files": []}}
    pages = [
        checked(1, "changed", judgment=judgment, diff=diff),
        checked(2, "removed"),
        checked(3, "error", error="Scrape timed out"),
        checked(4, "same", metadata={"searchStatus": "already_seen"}),
        checked(5, "same"),
    ]
    summary = {"totalPages": 4, "same": 1, "changed": 1, "new": 0, "removed": 1, "error": 1}
    check = {"id": JOB, "monitorId": MONITOR, "status": "partial", "summary": summary, "pages": pages}
    world = open_world(Service({CHECK_PATH: {"success": True, "data": check}}))
    arrived = {"monitorId": MONITOR, "checkId": JOB, "url": "https://example.com/5", "status": "same"}
    await world.add(sent("monitor.page", "w5", [arrived]))

    await world.backfill()

    changed, error, end = await world.made()
    assert changed["data"] == [
        {
            "monitorId": MONITOR,
            "checkId": JOB,
            "url": "https://example.com/1",
            "status": "changed",
            "previousScrapeId": "a",
            "currentScrapeId": "b",
            "error": None,
            "isMeaningful": True,
            "judgment": judgment,
            "diff": {"text": "+a"},
        }
    ]
    assert (error["success"], error["error"], error["data"][0]["status"]) == (False, "Scrape timed out", "error")
    assert (end["success"], end["data"]) == (
        False,
        [{"monitorId": MONITOR, "checkId": JOB, "status": "partial", "summary": summary}],
    )
    assert (await world.compare()).count == 0


@pytest.mark.parametrize(
    ("status", "words"), [("running", "its status is running"), ("skipped_overlap", "it was skipped")]
)
async def test_a_check_without_result_is_not_compared(open_world: Open, status: str, words: str) -> None:
    """The check is still running, or it was never run."""
    world = open_world(
        Service(
            {CHECK_PATH: {"success": True, "data": {"id": JOB, "status": status, "pages": [checked(1, "new")]}}}
        )
    )

    with pytest.raises(NotComparable, match=words):
        await world.compare(family="monitor", monitor_id=MONITOR)


@pytest.mark.parametrize(
    ("family", "answers", "words"),
    [
        ("crawl", {f"/v2/crawl/{JOB}": {"status": "scraping", "data": [document(1)]}}, "its status is scraping"),
        ("agent", {f"/v2/agent/{JOB}": {"status": "processing"}}, "its status is processing"),
        ("extract", {f"/v2/extract/{JOB}": {"status": "cancelled"}}, "sends no event"),
        ("monitor", {}, "names its monitor"),
        ("schedule", {}, "no results of the family 'schedule'"),
    ],
)
async def test_the_error_for_a_job_that_cannot_be_compared_has_the_reason(
    open_world: Open, family: str, answers: dict[str, Any], words: str
) -> None:
    """None of its events is kept for the import."""
    world = open_world(Service(answers))

    with pytest.raises(NotComparable, match=words):
        await world.compare(family=family)

    assert world.spool.end() == 0


async def test_an_expired_job_is_not_found(open_world: Open) -> None:
    """The service keeps results for 24 hours."""
    with pytest.raises(NotFound):
        await open_world(Service({})).compare(family="crawl")


async def test_an_error_in_the_middle_discards_all_events_of_the_job(open_world: Open) -> None:
    """Events that were found for other jobs stay."""
    service = crawl(document(1))
    world = open_world(service)
    kept = await world.compare(family="crawl")
    service.answers[f"/v2/crawl/{JOB}/errors"] = 500
    before = world.spool.end()

    with pytest.raises(ServerError):
        await world.compare(family="crawl")

    assert world.spool.end() == before
    assert await world.import_deliveries(kept) == {AppendOutcome.ACCEPTED: 2}


async def test_pruned_bodies_cannot_be_compared(open_world: Open) -> None:
    """Their pages are unknown, and a page must not be imported twice."""
    world = open_world(crawl(document(1)))
    await world.add(sent("crawl.page", "w1", [document(1)]))
    batch = await world.store.routing_batch(limit=9, max_bytes=10**6)
    await world.store.route(batch, [], lease=Lease(WorkerId("w"), NOON), now=NOON)
    rule = PruneRule(NOON.replace(year=2027), bodies=True)
    await world.store.prune(rule, after=0, limit=9, now=NOON)

    with pytest.raises(NotComparable, match="1 of its deliveries were pruned"):
        await world.compare()


async def test_jobs_of_version_0_are_not_compared(open_world: Open) -> None:
    """Their events have another form."""
    world = open_world(crawl(document(1)))
    old = sent("crawl.page", "w1", [document(1)], jobId=JOB)
    await world.add(old)

    with pytest.raises(NotComparable, match="version 0"):
        await world.compare()


@pytest.mark.parametrize("status", ["paused", "scraping", None, 5, ["completed"]])
async def test_a_job_of_an_unknown_status_is_not_over(open_world: Open, status: Any) -> None:
    """Only the documented final states are an end; others may appear."""
    world = open_world(crawl(document(1), status=status))
    with pytest.raises((NotOver, UnexpectedAnswer)):
        await world.compare("crawl")

    check = {"id": JOB, "status": status, "pages": [checked(1, "new")]}
    world = open_world(Service({f"/v2/monitor/m/checks/{JOB}": {"data": check}}))
    with pytest.raises(NotOver):
        await world.compare("monitor", "m")


async def test_what_is_no_page_is_counted_and_left_out(open_world: Open) -> None:
    """The other pages are compared. The count tells that something else was there."""
    world = open_world(crawl(document(1), "text", document(2), errors=[None, {"url": "https://x.example"}]))  # type: ignore[arg-type]
    missing = await world.compare("crawl")

    assert missing.counts == {"crawl.page": 3, "crawl.completed": 1}
    assert (missing.produced, missing.unclear) == (6, 2)


async def test_failed_pages_may_stand_below_data(open_world: Open) -> None:
    """The service's SDK reads both places."""
    service = crawl(document(1))
    service.answers[f"/v2/crawl/{JOB}/errors"] = {
        "success": True,
        "data": {"errors": [{"url": "https://x.example"}]},
    }

    assert (await open_world(service).compare("crawl")).counts == {"crawl.page": 2, "crawl.completed": 1}


async def test_an_answer_that_is_no_list_of_errors_is_an_error(open_world: Open) -> None:
    """Otherwise failed pages would be missing without a sign."""
    service = crawl(document(1))
    service.answers[f"/v2/crawl/{JOB}/errors"] = {"foo": 1}

    with pytest.raises(UnexpectedAnswer):
        await open_world(service).compare("crawl")
