"""Jobs that fail as a whole: by a fault of the emulator, or because somebody asked for it."""

import asyncio
import random
from typing import Any

import pytest
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v1.client import AsyncV1CrawlWatcher, AsyncV1FirecrawlApp

from receiver.emulator.account.keys import ApiKeys
from receiver.emulator.admin.faults import InjectedFaults, JobFault
from receiver.emulator.jobs.records import EmulatedJobState
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from receiver.events import parse_event
from tests.doubles import event_of, eventually, soon
from tests.emulator.jobs.test_sockets import KEY, served
from tests.emulator.world import SITE, MadeRules, World, open_world, site

PAGES = site(home="a b", a="c", b="", c="")
URLS = tuple(PAGES)


def failing(job: str = "*", **options: Any) -> InjectedFaults:
    return InjectedFaults(random.Random(1), jobs=[JobFault(job=job, **options)])


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_crawl_fails_after_some_pages(after: int) -> None:
    """Its results stay, its end is told once, and the next crawl takes its usual way."""
    async with open_world(PAGES, faults=failing("crawl", after=after, error="no more"), max_concurrency=1) as world:
        job = await world.crawl(webhook=True)
        answer = await world.call("GET", f"/v2/crawl/{job.id}")
        again = await world.crawl()
        events = world.endpoint.events

    assert (job.state, job.error, job.completed) == (EmulatedJobState.FAILED, "no more", after)
    assert {key: answer.body[key] for key in ("success", "status", "error")} == {
        "success": False,
        "status": "failed",
        "error": "no more",
    }
    assert len(answer.body["data"]) == after
    assert world.endpoint.types == ["crawl.started", *["crawl.page"] * after, "crawl.failed"]
    assert (events[-1]["success"], events[-1]["error"]) == (False, "no more")
    assert (again.state, again.completed) == (EmulatedJobState.COMPLETED, 4)


async def test_a_batch_fails_and_its_event_is_read() -> None:
    async with open_world(PAGES, faults=failing("batch_scrape"), max_concurrency=1) as world:
        crawl = await world.crawl()
        job = await world.batch(*URLS, webhook=True)
        body = world.endpoint.requests[-1].content

    event = parse_event(body)
    assert (crawl.state, job.state) == (EmulatedJobState.COMPLETED, EmulatedJobState.FAILED)
    assert (event.type, event.success, event.job_id) == ("batch_scrape.failed", False, job.id)
    assert event.error == "The job failed, because a fault was asked for"


async def test_a_job_with_fewer_pages_than_it_fails_after_is_completed() -> None:
    async with open_world(PAGES, faults=failing(after=5)) as world:
        job = await world.crawl()

    assert job.state is EmulatedJobState.COMPLETED


async def test_a_batch_whose_pages_cannot_be_noted_fails(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of the emulator: the log and the error have the same id."""
    async with open_world(PAGES) as world:
        pay = world.account.pay_within
        world.account.pay_within = None  # type: ignore[assignment,method-assign]
        job = await world.batch(*URLS, webhook=True)
        world.account.pay_within = pay  # type: ignore[method-assign]

    assert (job.state, job.completed) == (EmulatedJobState.FAILED, 0)
    assert world.endpoint.types == ["batch_scrape.started", "batch_scrape.failed"]
    assert [event_of(record) for record in caplog.records] == ["job_crashed"]
    assert caplog.records[0].fault in world.endpoint.events[-1]["error"]  # type: ignore[attr-defined]


# ---- watchers


async def started(world: World, kind: str) -> tuple[str, Any]:
    """Start a job that will fail after two pages, and hold it after one."""
    held = world.scraper.hold_after(1)
    team = ApiKeys().team_of(f"Bearer {KEY}")
    plan = CrawlPlan(url=f"{SITE}/") if kind == "crawl" else BatchPlan(urls=URLS)
    job = await world.engine.start(plan, team)
    return job.id, held


@pytest.mark.parametrize("kind", ["crawl", "batch"])
async def test_the_watcher_of_the_sdk_sees_that_a_job_failed(kind: Any) -> None:
    async with (
        open_world(PAGES, rules=MadeRules(), faults=failing(after=2), max_concurrency=1) as world,
        served(world) as url,
    ):
        job_id, held = await started(world, kind)
        snapshots = []
        watcher = AsyncFirecrawl(api_key=KEY, api_url=url).watcher(job_id, kind=kind, poll_interval=60, timeout=100)
        async for snapshot in watcher:
            snapshots.append(snapshot)
            held.set()

    assert snapshots[-1].status == "failed"


@pytest.mark.parametrize("kind", ["crawl", "batch"])
async def test_the_plain_watcher_of_the_sdk_calls_the_listener_for_errors(kind: Any) -> None:
    async with (
        open_world(PAGES, faults=failing(after=2, error="no more"), max_concurrency=1) as world,
        served(world) as url,
    ):
        job_id, held = await started(world, kind)
        watcher = Firecrawl(api_key=KEY, api_url=url).watcher(job_id, kind=kind, poll_interval=60)
        documents: list[Any] = []
        errors: list[Any] = []
        watcher.add_event_listener("document", documents.append)
        watcher.add_event_listener("error", errors.append)
        watcher.start()
        await eventually(lambda: documents)
        held.set()
        await eventually(lambda: errors)
        await asyncio.to_thread(watcher.stop)

    assert errors[0]["error"] == "no more"


async def test_the_watcher_of_version_1_calls_the_listener_for_errors() -> None:
    async with open_world(PAGES, faults=failing(after=0, error="no more")) as world, served(world) as url:
        team = ApiKeys().team_of(f"Bearer {KEY}")
        job = await world.engine.start(CrawlPlan(url=f"{SITE}/"), team)
        watcher = AsyncV1CrawlWatcher(job.id, AsyncV1FirecrawlApp(api_key=KEY, api_url=url))
        errors: list[Any] = []
        watcher.add_event_listener("error", errors.append)
        await soon(watcher.connect())

    assert errors[0]["error"] == "no more"
