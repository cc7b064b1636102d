"""Each operation: its request, and how it reads the answer. Bodies are those of the service."""

import inspect
import json
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

import pytest

from receiver.requests import (
    AgentRequest,
    BatchScrapeRequest,
    CrawlRequest,
    ExtractRequest,
    MonitorChanges,
    MonitorRequest,
    Schedule,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeRequestV2,
    ScrapeTarget,
    WebhookConfig,
)
from receiver.service.client import AsyncClient, Client
from receiver.service.responses import MapLink, SearchHits, WebHit
from tests.service.client.calling import (
    CHECK_ID,
    DOCUMENT,
    JOB,
    KEY,
    MONITOR_ID,
    PAGE,
    STARTED,
    Caller,
    Service,
    said,
)

HOOK = WebhookConfig(
    url="https://hooks.example.com/webhooks", events=["crawl.page", "completed"], metadata={"a": "b"}
)
HOOK_WIRE = {"url": "https://hooks.example.com/webhooks", "events": ["page", "completed"], "metadata": {"a": "b"}}

STATUS = {
    "success": True,
    "status": "completed",
    "total": 1,
    "completed": 1,
    "creditsUsed": 1,
    "expiresAt": "2026-08-05T12:00:00.000Z",
    "data": [DOCUMENT],
}
ERRORS = {
    "errors": [{"id": "e1", "timestamp": "2026-08-04T12:00:00.000Z", "url": PAGE, "code": "X", "error": "no"}],
    "robotsBlocked": ["https://example.com/private"],
}
SUMMARY = {"totalPages": 0, "same": 0, "changed": 0, "new": 0, "removed": 0, "error": 0}
MONITOR = {
    "id": MONITOR_ID,
    "name": "prices",
    "status": "active",
    "goal": None,
    "nextRunAt": "2026-08-04T13:00:00.000Z",
    "lastRunAt": None,
    "schedule": {"cron": "0 * * * *", "timezone": "UTC"},
    "targets": [{"id": "t1", "type": "scrape", "urls": [PAGE], "scrapeOptions": {"formats": ["markdown"]}}],
    "webhook": None,
    "retentionDays": 30,
    "emailRecipientSubscriptions": [{"email": "a@b.example", "status": "pending", "source": "opt_in"}],
}
CHECK = {
    "id": CHECK_ID,
    "monitorId": MONITOR_ID,
    "status": "queued",
    "trigger": "manual",
    "summary": SUMMARY,
    "startedAt": None,
    "actualCredits": None,
    "billingStatus": "not_applicable",
    "targetResults": None,
    "createdAt": "2026-08-04T12:00:00.000Z",
}

Operation = tuple[str, tuple[Any, ...], dict[str, Any], tuple[str, str, Any], dict[str, Any], dict[str, Any]]
# Name, arguments, what is sent, what is answered, and what is read from it.
OPERATIONS: list[Operation] = [
    (
        "scrape",
        (PAGE,),
        {},
        ("POST", "/v1/scrape", {"url": PAGE}),
        {"success": True, "data": DOCUMENT},
        {"markdown": "# Hi", "url": PAGE},
    ),
    (
        "scrape",
        (ScrapeRequest(url=PAGE, formats=["markdown", "links"]),),
        {},
        ("POST", "/v1/scrape", {"url": PAGE, "formats": ["markdown", "links"]}),
        {"success": True, "data": {**DOCUMENT, "links": [PAGE]}},
        {"links": [PAGE]},
    ),
    (
        "scrape",
        (PAGE,),
        {"formats": ["html"], "only_main_content": False},
        ("POST", "/v1/scrape", {"url": PAGE, "formats": ["html"], "onlyMainContent": False}),
        {"success": True, "data": DOCUMENT},
        {"url": PAGE},
    ),
    (
        "scrape",
        (PAGE,),
        {"version": 2, "formats": ["markdown", "images"], "max_age": 0},
        ("POST", "/v2/scrape", {"url": PAGE, "formats": ["markdown", "images"], "maxAge": 0}),
        {"success": True, "data": {**DOCUMENT, "images": [PAGE]}},
        {"images": [PAGE]},
    ),
    (
        "scrape",
        (ScrapeRequestV2(url=PAGE),),
        {},
        ("POST", "/v2/scrape", {"url": PAGE}),
        {"success": True, "data": DOCUMENT},
        {"url": PAGE},
    ),
    (
        "map",
        (PAGE,),
        {"limit": 5, "sitemap": "skip"},
        ("POST", "/v2/map", {"url": PAGE, "limit": 5, "sitemap": "skip"}),
        {"success": True, "links": [{"url": PAGE, "title": "Hi"}, f"{PAGE}a"], "warning": "few"},
        {"links": [MapLink(url=PAGE, title="Hi"), MapLink(url=f"{PAGE}a")], "warning": "few"},
    ),
    (
        "search",
        ("python",),
        {"sources": ["web"]},
        ("POST", "/v2/search", {"query": "python", "sources": ["web"]}),
        {"success": True, "id": JOB, "data": {"web": [{"url": PAGE, "position": 1}]}, "creditsUsed": 2},
        {"credits_used": 2, "data": SearchHits(web=[WebHit(url=PAGE, position=1)])},
    ),
    ("crawl", (PAGE,), {}, ("POST", "/v2/crawl", {"url": PAGE}), STARTED, {"id": JOB}),
    (
        "crawl",
        (PAGE,),
        {"limit": 10_000, "include_paths": ["^/a"], "webhook": HOOK},
        ("POST", "/v2/crawl", {"url": PAGE, "limit": 10_000, "includePaths": ["^/a"], "webhook": HOOK_WIRE}),
        STARTED,
        {"id": JOB},
    ),
    (
        "batch_scrape",
        ((PAGE,),),
        {"formats": ["html"]},
        ("POST", "/v2/batch/scrape", {"urls": [PAGE], "formats": ["html"]}),
        STARTED,
        {"id": JOB},
    ),
    (
        "extract",
        (),
        {"prompt": "p"},
        ("POST", "/v2/extract", {"prompt": "p"}),
        {"success": True, "id": JOB},
        {"id": JOB},
    ),
    (
        "agent",
        ("find",),
        {"max_credits": 5},
        ("POST", "/v2/agent", {"prompt": "find", "maxCredits": 5}),
        {"success": True, "id": JOB},
        {"id": JOB},
    ),
    (
        "create_monitor",
        ("prices",),
        {"schedule": Schedule(cron="0 * * * *"), "targets": [ScrapeTarget(urls=[PAGE])]},
        (
            "POST",
            "/v2/monitor",
            {
                "name": "prices",
                "schedule": {"cron": "0 * * * *"},
                "targets": [{"type": "scrape", "urls": [PAGE]}],
            },
        ),
        {"success": True, "data": MONITOR},
        {"id": MONITOR_ID},
    ),
    (
        "update_monitor",
        (MONITOR_ID,),
        {"status": "paused"},
        ("PATCH", f"/v2/monitor/{MONITOR_ID}", {"status": "paused"}),
        {"success": True, "data": {**MONITOR, "status": "paused"}},
        {"status": "paused"},
    ),
    (
        "crawl",
        (CrawlRequest(url=PAGE, limit=5),),
        {"webhook": HOOK},
        ("POST", "/v2/crawl", {"url": PAGE, "limit": 5, "webhook": HOOK_WIRE}),
        {**STARTED, "promptGeneratedOptions": {"limit": 9}, "finalCrawlerOptions": {"limit": 5}},
        {"id": JOB, "final_crawler_options": {"limit": 5}},
    ),
    (
        "crawl_status",
        (JOB,),
        {"skip": 0, "limit": 1000},
        ("GET", f"/v2/crawl/{JOB}?skip=0&limit=1000", None),
        STATUS,
        {"status": "completed", "finished": True, "total": 1, "expires_at": datetime(2026, 8, 5, 12, tzinfo=UTC)},
    ),
    (
        "crawl_errors",
        (JOB,),
        {},
        ("GET", f"/v2/crawl/{JOB}/errors", None),
        ERRORS,
        {"robots_blocked": ["https://example.com/private"]},
    ),
    ("cancel_crawl", (JOB,), {}, ("DELETE", f"/v2/crawl/{JOB}", None), {"status": "cancelled"}, {}),
    (
        "batch_scrape",
        ([PAGE],),
        {},
        ("POST", "/v2/batch/scrape", {"urls": [PAGE]}),
        {"success": True, "id": JOB, "url": "u", "invalidURLs": ["nowhere"]},
        {"id": JOB, "invalid_urls": ["nowhere"]},
    ),
    (
        "batch_scrape",
        (BatchScrapeRequest(urls=[PAGE], only_main_content=True),),
        {"webhook": HOOK.model_copy(update={"events": ("batch_scrape.page", "completed")})},
        ("POST", "/v2/batch/scrape", {"urls": [PAGE], "onlyMainContent": True, "webhook": HOOK_WIRE}),
        STARTED,
        {"id": JOB},
    ),
    (
        "batch_status",
        (JOB,),
        {},
        ("GET", f"/v2/batch/scrape/{JOB}", None),
        {**STATUS, "status": "scraping"},
        {"finished": False},
    ),
    ("batch_errors", (JOB,), {}, ("GET", f"/v2/batch/scrape/{JOB}/errors", None), {"errors": []}, {"errors": []}),
    (
        "batch_errors",
        (JOB,),
        {},
        ("GET", f"/v2/batch/scrape/{JOB}/errors", None),
        {"success": True, "data": ERRORS},
        {"robots_blocked": ["https://example.com/private"]},
    ),
    ("cancel_batch", (JOB,), {}, ("DELETE", f"/v2/batch/scrape/{JOB}", None), {"status": "cancelled"}, {}),
    (
        "extract",
        (ExtractRequest(urls=[PAGE], prompt="p", schema_={"type": "object"}),),
        {},
        ("POST", "/v2/extract", {"urls": [PAGE], "prompt": "p", "schema": {"type": "object"}}),
        {"success": True, "id": JOB, "urlTrace": []},
        {"id": JOB, "url_trace": []},
    ),
    (
        "extract_status",
        (JOB,),
        {},
        ("GET", f"/v2/extract/{JOB}", None),
        {"success": False, "status": "failed", "data": [], "error": "no page", "expiresAt": "2026-08-05T12:00:00Z"},
        {"status": "failed", "error": "no page", "finished": True},
    ),
    ("agent", ("find",), {}, ("POST", "/v2/agent", {"prompt": "find"}), {"success": True, "id": JOB}, {"id": JOB}),
    (
        "agent",
        (AgentRequest(prompt="find", max_credits=5),),
        {"webhook": "https://hooks.example.com/"},
        (
            "POST",
            "/v2/agent",
            {"prompt": "find", "maxCredits": 5, "webhook": {"url": "https://hooks.example.com/"}},
        ),
        {"success": True, "id": JOB, "threadId": "t", "threadTurn": 1},
        {"thread_id": "t", "thread_turn": 1},
    ),
    (
        "agent_status",
        (JOB,),
        {},
        ("GET", f"/v2/agent/{JOB}", None),
        {"success": True, "status": "processing", "model": "m", "creditsUsed": 2, "expiresAt": None},
        {"status": "processing", "credits_used": 2, "finished": False},
    ),
    ("cancel_agent", (JOB,), {}, ("DELETE", f"/v2/agent/{JOB}", None), {"success": True}, {}),
    (
        "monitor",
        (MONITOR_ID,),
        {},
        ("GET", f"/v2/monitor/{MONITOR_ID}", None),
        {"success": True, "data": MONITOR},
        {"name": "prices", "status": "active", "retention_days": 30, "last_run_at": None, "webhook": None},
    ),
    (
        "create_monitor",
        (
            MonitorRequest(
                name="prices",
                schedule=Schedule(cron="0 * * * *"),
                targets=[ScrapeTarget(urls=[PAGE])],
                judge_enabled=True,
            ),
        ),
        {},
        (
            "POST",
            "/v2/monitor",
            {
                "name": "prices",
                "schedule": {"cron": "0 * * * *"},
                "targets": [{"type": "scrape", "urls": [PAGE]}],
                "judgeEnabled": True,
            },
        ),
        {"success": True, "data": MONITOR},
        {"id": MONITOR_ID},
    ),
    (
        "update_monitor",
        (MONITOR_ID, MonitorChanges(status="paused")),
        {},
        ("PATCH", f"/v2/monitor/{MONITOR_ID}", {"status": "paused"}),
        {"success": True, "data": {**MONITOR, "status": "paused"}},
        {"status": "paused"},
    ),
    ("delete_monitor", (MONITOR_ID,), {}, ("DELETE", f"/v2/monitor/{MONITOR_ID}", None), {"success": True}, {}),
    (
        "run_monitor",
        (MONITOR_ID,),
        {},
        ("POST", f"/v2/monitor/{MONITOR_ID}/run", None),
        {"success": True, "id": CHECK_ID, "data": CHECK},
        {"id": CHECK_ID, "status": "queued", "finished": False, "target_results": [], "trigger": "manual"},
    ),
    (
        "run_monitor",
        (MONITOR_ID,),
        {},
        ("POST", f"/v2/monitor/{MONITOR_ID}/run", None),
        {"success": True, "id": CHECK_ID, "data": {"status": "queued"}},
        {"id": CHECK_ID, "status": "queued"},
    ),
    (
        "check",
        (MONITOR_ID, CHECK_ID),
        {"limit": 5, "skip": 10, "status": "removed"},
        ("GET", f"/v2/monitor/{MONITOR_ID}/checks/{CHECK_ID}?limit=5&skip=10&status=removed", None),
        {"success": True, "next": "https://x/n", "data": {**CHECK, "status": "partial", "pages": [{"id": "p1"}]}},
        {"status": "partial", "finished": True, "next": "https://x/n"},
    ),
    (
        "queue_status",
        (),
        {},
        ("GET", "/v2/team/queue-status", None),
        {"success": True, "jobsInQueue": 3, "activeJobsInQueue": 1, "waitingJobsInQueue": 2, "maxConcurrency": 2},
        {"jobs_in_queue": 3, "max_concurrency": 2},
    ),
]


@pytest.mark.parametrize(
    ("name", "args", "options", "request_", "body", "expected"), OPERATIONS, ids=[one[0] for one in OPERATIONS]
)
async def test_an_operation_sends_and_reads_what_is_documented(
    caller: Caller,
    service: Service,
    name: str,
    args: tuple[Any, ...],
    options: dict[str, Any],
    request_: tuple[str, str, Any],
    body: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    """Each request has the key, and a body only where one is documented."""
    service.replies = [said(**body)]

    result = await caller.call(name, *args, **options)

    assert service.sent == [request_]
    (request,) = service.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers.get("content-type") == ("application/json" if request_[2] is not None else None)
    assert {attribute: getattr(result, attribute) for attribute in expected} == expected
    assert (result is None) == (name.startswith(("cancel", "delete")))


@pytest.mark.parametrize(
    ("name", "args", "options", "path", "body"),
    [
        ("active_crawls", (), {}, "/v2/crawl/active", {"crawls": [{"id": JOB, "teamId": "t", "url": PAGE}]}),
        ("monitors", (), {"limit": 100, "offset": 0}, "/v2/monitor?limit=100&offset=0", {"data": [MONITOR]}),
        (
            "checks",
            (MONITOR_ID,),
            {"status": "failed"},
            f"/v2/monitor/{MONITOR_ID}/checks?status=failed",
            {"data": [CHECK]},
        ),
    ],
)
async def test_lists_are_read_item_by_item(
    caller: Caller, service: Service, name: str, args: Any, options: Any, path: str, body: Any
) -> None:
    """Each item becomes a model of its own."""
    service.replies = [said(success=True, **body)]

    (item,) = await caller.call(name, *args, **options)

    assert service.sent == [("GET", path, None)]
    assert item.id == next(iter(body.values()))[0]["id"]


def test_both_clients_have_the_same_operations() -> None:
    """Each operation is tested above, or in the tests of pages."""
    theirs = {
        client: {name for name, value in vars(client).items() if hasattr(value, "__wrapped__")}
        for client in (AsyncClient, Client)
    }

    assert theirs[AsyncClient] == theirs[Client]
    tested = {one[0] for one in OPERATIONS} | {"active_crawls", "monitors", "checks", "parse"}
    assert theirs[Client] - tested == {"crawl_pages", "batch_pages", "check_pages"}
    for name in theirs[Client]:
        assert inspect.getdoc(getattr(Client, name)) == inspect.getdoc(getattr(AsyncClient, name))


async def test_a_file_is_sent_in_parts(caller: Caller, service: Service) -> None:
    """One part has the bytes, with name and media type; the other has the options as JSON."""
    service.replies = [said(success=True, data=DOCUMENT)]

    document = await caller.call("parse", b"%PDF-1", "a.pdf", content_type="application/pdf", formats=["html"])

    assert document.markdown == "# Hi"
    (request,) = service.requests
    assert (request.method, request.url.path) == ("POST", "/v2/parse")
    sent = BytesParser(policy=HTTP).parsebytes(
        b"Content-Type: " + request.headers["content-type"].encode() + b"\r\n\r\n" + request.content
    )
    file, options = sent.iter_parts()
    assert (file.get_filename(), file.get_content_type(), file.get_content()) == (
        "a.pdf",
        "application/pdf",
        b"%PDF-1",
    )
    assert (file["content-disposition"].params["name"], options["content-disposition"].params["name"]) == (
        "file",
        "options",
    )
    assert json.loads(str(options.get_payload())) == {"formats": ["html"]}


async def test_a_hit_that_was_scraped_has_its_document(caller: Caller, service: Service) -> None:
    """Its fields stand in the hit itself, and a hit that was not scraped has none."""
    hits = [{"url": PAGE, "title": "Hi", **DOCUMENT}, {"url": PAGE}]
    service.replies = [said(success=True, data={"web": hits, "images": [{"imageUrl": "u", "imageWidth": 5}]})]

    found = await caller.call("search", "python", scrape_options=ScrapeOptions(formats=["markdown"]))

    scraped, other = found.data.web
    assert (scraped.document.markdown, scraped.document.metadata.status_code) == ("# Hi", 200)
    assert other.document is None
    assert found.data.images[0].image_width == 5


@pytest.mark.parametrize(
    ("name", "args", "options", "error", "words"),
    [
        (
            "crawl",
            (CrawlRequest(url=PAGE),),
            {"limit": 5},
            TypeError,
            "limit: give a whole CrawlRequest",
        ),
        ("crawl", (ScrapeRequest(url=PAGE),), {}, TypeError, "give a CrawlRequest, not a ScrapeRequest"),
        ("crawl", (PAGE,), {"limt": 5}, ValueError, "limt"),
        ("crawl", (PAGE,), {"limit": 0}, ValueError, "limit"),
        ("scrape", (PAGE,), {"lockdown": True}, ValueError, "lockdown"),
        (
            "scrape",
            (ScrapeRequest(url=PAGE),),
            {"version": 2},
            ValueError,
            "is one of version 1, not 2",
        ),
        ("scrape", (ScrapeRequestV2(url=PAGE),), {"version": 1}, ValueError, "is one of version 2, not 1"),
        ("scrape", (PAGE,), {"version": 3}, ValueError, "not 3"),
        ("parse", (b"x",), {}, ValueError, "filename"),
        ("update_monitor", ("1",), {}, ValueError, "give at least one field"),
    ],
)
async def test_options_that_do_not_fit_are_not_sent(
    caller: Caller, service: Service, name: str, args: Any, options: Any, error: type[Exception], words: str
) -> None:
    """A whole request has all its options already."""
    with pytest.raises(error, match=words):
        await caller.call(name, *args, **options)
    assert service.requests == []


async def test_a_check_is_read_with_all_its_results(caller: Caller, service: Service) -> None:
    """Its pages have snapshot, judgment and tree of differences."""
    page = {
        "id": "p1",
        "targetId": "t1",
        "url": PAGE,
        "status": "changed",
        "statusCode": 200,
        "metadata": {"title": "Hi"},
        "diff": {"text": "@@", "json": {"files": [{"chunks": []}]}},
        "snapshot": {"json": {"price": 9}},
        "createdAt": "2026-08-04T12:00:00Z",
    }
    service.replies = [said(success=True, data={**CHECK, "pages": [page]})]

    check = await caller.call("check", MONITOR_ID, CHECK_ID)

    (read,) = check.pages
    assert (read.target_id, read.status_code, read.snapshot.json_) == ("t1", 200, {"price": 9})
    assert read.diff.model_extra == {"json": {"files": [{"chunks": []}]}}
