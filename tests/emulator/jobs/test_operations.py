"""The operations on crawls and batch scrapes: their answers as clients read them."""

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema
import pytest
from firecrawl.v1.client import V1CrawlStatusResponse
from firecrawl.v2.methods.crawl import _parse_crawl_status_response
from firecrawl.v2.types import ActiveCrawlsResponse, CrawlJob

from receiver.emulator.api.calls import Answer
from receiver.emulator.failures import CallRefused
from receiver.emulator.jobs import table
from receiver.service.responses.jobs import JobErrors, JobStatus
from tests.doubles import eventually
from tests.emulator import schemas
from tests.emulator.world import SITE, MadePage, MadeRules, World, open_world, site

SMALL = site(home="a b", a="c home", b="a", c="")
UNKNOWN = "019f2c10-0000-7000-8000-000000000001"
STATUS = schemas.job_status({"type": "object"})
VERSIONS = pytest.mark.parametrize("version", ["v1", "v2"])


async def started(world: World, path: str = "/v2/crawl", **body: Any) -> str:
    """Start a job, let it run, and return its id."""
    answer = await world.call("POST", path, {"url": f"{SITE}/", **body} if path.endswith("crawl") else body)
    jsonschema.validate(answer.body, schemas.JOB_STARTED)
    await world.quiet()
    return str(answer.body["id"])


async def follow(world: World, answer: Answer) -> Answer:
    """Follow the answer's `next` as clients do: by path and query."""
    parts = urlsplit(answer.body["next"])
    assert (parts.scheme, parts.netloc) == ("http", "127.0.0.1:3002")
    return await world.call("GET", parts.path, query=dict(parse_qsl(parts.query)))


@VERSIONS
@pytest.mark.parametrize("kind", ["crawl", "batch/scrape"])
async def test_a_job_is_started_and_asked_for(version: str, kind: str) -> None:
    """The answers are what both SDK versions and our client read."""
    async with open_world(SMALL) as world:
        path = f"/{version}/{kind}"
        body = {"url": f"{SITE}/"} if kind == "crawl" else {"urls": list(SMALL)}
        answer = await world.call("POST", path, {**body, "origin": "python-sdk@4.53.2"})
        job_id = answer.body["id"]
        assert answer.status == 200
        assert answer.body["url"] == f"http://127.0.0.1:3002{path}/{job_id}"
        jsonschema.validate(answer.body, schemas.JOB_STARTED)
        await world.quiet()

        answer = await world.call("GET", f"{path}/{job_id}")
        jsonschema.validate(answer.body, STATUS)
        assert answer.body["status"] == "completed"
        assert (answer.body["completed"], answer.body["total"], answer.body["creditsUsed"]) == (4, 4, 4)
        assert "next" not in answer.body
        moment = r"2026-01-01T12:00:00\.000Z"
        assert re.fullmatch(moment, answer.body["createdAt"])
        assert re.fullmatch(moment, answer.body["completedAt"])
        assert answer.body["expiresAt"] == "2026-01-02T12:00:00.000Z"
        CrawlJob(**_parse_crawl_status_response(answer.body))
        V1CrawlStatusResponse(**answer.body)
        assert JobStatus.model_validate(answer.body).finished

        errors = await world.call("GET", f"{path}/{job_id}/errors")
        jsonschema.validate(errors.body, schemas.JOB_ERRORS)
        assert errors.body == {"success": True, "errors": [], "robotsBlocked": []}
        with pytest.raises(CallRefused, match="Crawl is already completed") as refused:
            await world.call("DELETE", f"{path}/{job_id}")
        assert refused.value.status == 409


async def test_errors_have_every_field_that_clients_need() -> None:
    """The code is left out where the service gives none."""
    pages = SMALL | {f"{SITE}/a": MadePage(fails="SCRAPE_TIMEOUT")}
    async with open_world(pages, rules=MadeRules(robots=[f"{SITE}/b"])) as world:
        job_id = await started(world)
        answer = await world.call("GET", f"/v2/crawl/{job_id}/errors")
        status = await world.call("GET", f"/v2/crawl/{job_id}")

    jsonschema.validate(answer.body, schemas.JOB_ERRORS)
    (error,) = answer.body["errors"]
    assert (error["url"], error["code"], error["error"]) == (
        f"{SITE}/a",
        "SCRAPE_TIMEOUT",
        "no page: SCRAPE_TIMEOUT",
    )
    assert answer.body["robotsBlocked"] == [f"{SITE}/b"]
    assert "robots.txt" in status.body["warning"]
    assert len(JobErrors.model_validate(answer.body).errors) == 1


async def test_results_come_in_pages_that_lead_to_each_other() -> None:
    """By skip and limit; the last one leads nowhere."""
    pages = {f"{SITE}/{number}": MadePage() for number in range(250)}
    async with open_world(pages, max_concurrency=1) as world:
        job_id = await started(world, "/v2/batch/scrape", urls=list(pages))
        answer = await world.call("GET", f"/v2/batch/scrape/{job_id}")
        sizes, urls = [], []
        while True:
            sizes.append(len(answer.body["data"]))
            urls += [document["metadata"]["sourceURL"] for document in answer.body["data"]]
            if "next" not in answer.body:
                break
            answer = await follow(world, answer)
        assert (sizes, urls) == ([100, 100, 50], list(pages))

        answer = await world.call("GET", f"/v2/crawl/{job_id}", query={"skip": "240", "limit": "7"})
        assert len(answer.body["data"]) == 7
        assert len((await follow(world, answer)).body["data"]) == 3


async def test_a_page_of_results_ends_at_ten_mebibytes_but_has_one_document() -> None:
    """However large that is."""
    sizes = (6, 3, 3, 11, 1)
    pages = {f"{SITE}/{number}": MadePage(markdown="x" * (size * 1024 * 1024)) for number, size in enumerate(sizes)}
    assert table.MAX_BYTES == 10 * 1024 * 1024
    async with open_world(pages, max_concurrency=1) as world:
        job_id = await started(world, "/v2/batch/scrape", urls=list(pages))
        answer = await world.call("GET", f"/v2/batch/scrape/{job_id}")
        counts = [len(answer.body["data"])]
        while "next" in answer.body:
            answer = await follow(world, answer)
            counts.append(len(answer.body["data"]))

    assert counts == [2, 1, 1, 1]


async def test_a_running_job_always_leads_to_a_next_page() -> None:
    """It stays the same while nothing comes."""
    async with open_world(SMALL, max_concurrency=1) as world:
        held = world.scraper.hold_after(1)
        answer = await world.call("POST", "/v2/crawl", {"url": f"{SITE}/"})
        await eventually(lambda: world.scraper.running == 1 and len(world.scraper.scraped) == 2)
        answer = await world.call("GET", f"/v2/crawl/{answer.body['id']}")
        jsonschema.validate(answer.body, STATUS)
        assert (answer.body["status"], answer.body["completed"], answer.body["total"]) == ("scraping", 1, 3)
        after = await follow(world, answer)
        assert (after.body["data"], after.body["next"]) == ([], answer.body["next"])
        held.set()


async def test_running_crawls_are_listed_with_their_options() -> None:
    """Without secrets; batches and ended crawls are not among them."""
    async with open_world(SMALL) as world:
        await started(world)
        held = world.scraper.hold_after(0)
        hook = {"url": "https://hooks.example.com/", "headers": {"X-Key": "secret"}}
        options = {"limit": 7, "scrapeOptions": {"formats": ["html"]}}
        answer = await world.call("POST", "/v2/crawl", {"url": f"{SITE}/", "webhook": hook, **options})
        await world.call("POST", "/v2/batch/scrape", {"urls": [f"{SITE}/"]})
        for path in ("/v2/crawl/active", "/v2/crawl/ongoing", "/v1/crawl/active"):
            active = await world.call("GET", path)
            (crawl,) = active.body["crawls"]
            assert (crawl["id"], crawl["url"], crawl["options"]) == (answer.body["id"], f"{SITE}/", options)
            ActiveCrawlsResponse(
                success=True,
                crawls=[{"id": crawl["id"], "team_id": crawl["teamId"], "url": crawl["url"]}],
            )
        assert (await world.call("GET", "/v2/crawl/active", team="other")).body["crawls"] == []
        held.set()


@VERSIONS
async def test_a_cancel_answers_at_once(version: str) -> None:
    """With the status that the SDK looks for."""
    async with open_world(SMALL, max_concurrency=1) as world:
        held = world.scraper.hold_after(0)
        start = await world.call("POST", f"/{version}/crawl", {"url": f"{SITE}/"})
        answer = await world.call("DELETE", f"/{version}/crawl/{start.body['id']}")
        assert answer.body == {"success": True, "status": "cancelled"}
        status = await world.call("GET", f"/{version}/crawl/{start.body['id']}")
        jsonschema.validate(status.body, STATUS)
        assert status.body["status"] == "cancelled"
        held.set()
        await world.quiet()
        status = await world.call("GET", f"/{version}/crawl/{start.body['id']}")
        assert "next" not in status.body


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "error"),
    [
        ("GET", f"/v2/crawl/{UNKNOWN}", {}, 404, "Job not found"),
        ("GET", f"/v1/batch/scrape/{UNKNOWN}/errors", {}, 404, "Job not found"),
        ("DELETE", f"/v2/crawl/{UNKNOWN}", {}, 404, "Job not found"),
        ("GET", "/v2/crawl/no-uuid", {}, 400, "Invalid job ID"),
        ("DELETE", "/v1/crawl/no-uuid", {}, 400, "Invalid job ID"),
        ("GET", f"/v2/crawl/{UNKNOWN}", {"limit": "0"}, 400, "Bad Request"),
        ("GET", f"/v2/crawl/{UNKNOWN}", {"limit": "1001"}, 400, "Bad Request"),
        ("GET", f"/v2/crawl/{UNKNOWN}", {"skip": "-1"}, 400, "Bad Request"),
        ("GET", f"/v2/crawl/{UNKNOWN}", {"skip": "9" * 30}, 400, "Bad Request"),
        ("GET", f"/v2/crawl/{UNKNOWN}", {"skip": "٣"}, 400, "Bad Request"),
    ],
)
async def test_wrong_calls_are_refused(
    method: str, path: str, query: dict[str, str], status: int, error: str
) -> None:
    """With the texts of the service."""
    async with open_world() as world:
        with pytest.raises(CallRefused, match=error) as refused:
            await world.call(method, path, query=query)

    assert refused.value.status == status


async def test_a_job_of_another_team_does_not_exist() -> None:
    """Neither does one that has expired."""
    async with open_world(SMALL) as world:
        job_id = await started(world)
        with pytest.raises(CallRefused, match="Job not found"):
            await world.call("GET", f"/v2/crawl/{job_id}", team="other")
        await world.pass_time(hours=24)
        with pytest.raises(CallRefused, match="Job expired") as refused:
            await world.call("GET", f"/v2/crawl/{job_id}")

    assert refused.value.status == 404


async def test_a_crawl_that_finds_one_page_below_a_path_warns() -> None:
    """Somebody wonders where the others are."""
    async with open_world({f"{SITE}/docs/x": MadePage()}) as world:
        job_id = await started(world, url=f"{SITE}/docs/x")
        answer = await world.call("GET", f"/v2/crawl/{job_id}")

    assert "crawlEntireDomain" in answer.body["warning"]


async def test_a_failed_job_says_so() -> None:
    """Its status has `success: false` and why."""

    class BrokenRules(MadeRules):
        def key(self, url: str) -> str:
            raise RuntimeError("a fault in the code")

    async with open_world(SMALL, rules=BrokenRules()) as world:
        job_id = await started(world)
        answer = await world.call("GET", f"/v2/crawl/{job_id}")

    assert (answer.body["success"], answer.body["status"]) == (False, "failed")
    assert "fault" in answer.body["error"]
    jsonschema.validate(answer.body, STATUS)


async def test_invalid_urls_of_a_batch_are_listed() -> None:
    """An empty list says that there were none."""
    async with open_world(SMALL) as world:
        answer = await world.call("POST", "/v2/batch/scrape", {"urls": [f"{SITE}/a", "ftp://x.test/"]})
        assert answer.body["invalidURLs"] == ["ftp://x.test/"]
        answer = await world.call("POST", "/v2/batch/scrape", {"urls": [f"{SITE}/a"]})
        assert answer.body["invalidURLs"] == []


async def test_a_batch_grows_under_its_id() -> None:
    """An unknown one is 404, a cancelled one 409."""
    async with open_world(SMALL, max_concurrency=1) as world:
        job_id = await started(world, "/v2/batch/scrape", urls=[f"{SITE}/a"])
        again = await started(world, "/v2/batch/scrape", urls=[f"{SITE}/b"], appendToId=job_id)
        assert again == job_id
        with pytest.raises(CallRefused) as unknown:
            await started(world, "/v2/batch/scrape", urls=[f"{SITE}/b"], appendToId=UNKNOWN)
        assert unknown.value.status == 404
        held = world.scraper.hold_after(0)
        other = await world.call("POST", "/v2/batch/scrape", {"urls": [f"{SITE}/a"]})
        await world.call("DELETE", f"/v2/batch/scrape/{other.body['id']}")
        held.set()
        with pytest.raises(CallRefused) as cancelled:
            await started(world, "/v2/batch/scrape", urls=[f"{SITE}/b"], appendToId=other.body["id"])
        assert cancelled.value.status == 409


async def test_a_prompt_shows_what_it_stands_for() -> None:
    """The preview has the options alone, and says so when there are none."""
    async with open_world(SMALL) as world:
        prompt = "Extract all blog posts and documentation"
        answer = await world.call(
            "POST", "/v2/crawl/params-preview", {"url": SITE, "prompt": prompt, "origin": "x"}
        )
        assert answer.body == {"success": True, "data": {"url": SITE, "includePaths": ["blog/.*", "docs/.*"]}}
        answer = await world.call("POST", "/v2/crawl/params-preview", {"url": SITE, "prompt": "be nice"})
        assert answer.body["data"] == {"url": SITE}
        assert "warning" in answer.body


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": SITE},
        {"prompt": "docs"},
        {"url": "", "prompt": "docs"},
        {"url": SITE, "prompt": 3},
        {"url": "ftp://x.test", "prompt": "docs"},
        {"url": SITE, "prompt": "docs", "limit": 3},
    ],
)
async def test_a_wrong_preview_is_refused(body: dict[str, Any]) -> None:
    """With the service's 400."""
    async with open_world() as world:
        with pytest.raises(CallRefused) as refused:
            await world.call("POST", "/v2/crawl/params-preview", body)

    assert (refused.value.status, refused.value.code) == (400, "BAD_REQUEST")
    assert refused.value.details


async def test_a_crawl_follows_its_prompt_and_its_own_options_first() -> None:
    """The answer has both."""
    async with open_world(SMALL) as world:
        body = {"url": f"{SITE}/", "prompt": "at most 2 pages of the blog", "includePaths": [".*"], "limit": 50}
        answer = await world.call("POST", "/v2/crawl", body)
        await world.quiet()
        status = await world.call("GET", f"/v2/crawl/{answer.body['id']}")

    assert answer.body["promptGeneratedOptions"] == {"includePaths": ["blog/.*"], "limit": 2}
    final = answer.body["finalCrawlerOptions"]
    assert (final["includePaths"], final["limit"], final["sitemap"]) == ([".*"], 2, "include")
    assert status.body["completed"] == 2
