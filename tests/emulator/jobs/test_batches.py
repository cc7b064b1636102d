"""Batch scrapes: they take every URL that they are given, and can grow."""

import pytest

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.jobs.records import (
    EmulatedJobState,
    JobEnded,
    JobKind,
    JobNotFound,
    plan_from_json,
    plan_to_json,
)
from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from tests.doubles import eventually
from tests.emulator.world import HOOK, SITE, TEAM, MadePage, open_world

PAGES = {f"{SITE}/{name}": MadePage([f"{SITE}/never"]) for name in "abc"}


async def test_a_batch_scrapes_each_url_that_it_is_given() -> None:
    """Also one that is given twice; links are not followed, and robots.txt is not asked."""
    async with open_world(PAGES, max_concurrency=1) as world:
        job = await world.batch(f"{SITE}/a", f"{SITE}/b", f"{SITE}/a", f"{SITE}/gone", webhook=True)

        assert (job.state, job.completed, job.failed, job.total) == (EmulatedJobState.COMPLETED, 3, 1, 3)
        assert await world.sources(job) == [f"{SITE}/a", f"{SITE}/b", f"{SITE}/a"]
        assert world.rules.asked == []
        errors, _ = await world.engine.errors(job)
        assert [(one.url, one.code) for one in errors] == [(f"{SITE}/gone", "SCRAPE_SITE_ERROR")]
    family = "batch_scrape"
    assert world.endpoint.types == [f"{family}.started", *[f"{family}.page"] * 4, f"{family}.completed"]


async def test_a_page_that_fails_may_have_its_price() -> None:
    """As a lockdown without a copy, and the checks of its address."""
    async with open_world({**PAGES, f"{SITE}/d": MadePage(fails="X", fails_for=2)}) as world:
        job = await world.batch(f"{SITE}/a", f"{SITE}/d")

        assert job.credits == world.account.charged == 3


async def test_a_page_of_a_job_waits_for_a_place() -> None:
    """Scrapes of the team may have all places of its plan. A single scrape is refused then, a job is not."""
    async with open_world(PAGES) as world:
        world.scraper.refusals = 3
        job = await world.batch(f"{SITE}/a", f"{SITE}/b")

        assert (job.state, job.completed, job.failed) == (EmulatedJobState.COMPLETED, 2, 0)


async def test_a_batch_that_was_completed_grows() -> None:
    """It goes on under its id, and tells of its end again."""
    async with open_world(PAGES) as world:
        job = await world.batch(f"{SITE}/a", webhook=True)
        await world.engine.append(BatchPlan(urls=(f"{SITE}/b", f"{SITE}/c"), append_to_id=job.id), TEAM)
        await world.quiet()

        job = await world.engine.get(job.id, TEAM)
        assert (job.state, job.completed, job.total) == (EmulatedJobState.COMPLETED, 3, 3)
        assert world.endpoint.types.count("batch_scrape.completed") == 2
        assert world.endpoint.types.count("batch_scrape.page") == 3


async def test_a_batch_that_runs_grows() -> None:
    """The new URLs are scraped with the others, and the end comes once."""
    async with open_world(PAGES, max_concurrency=1) as world:
        held = world.scraper.hold_after(0)
        job = await world.engine.start(BatchPlan(urls=(f"{SITE}/a",), webhook=WebhookTarget(HOOK)), TEAM)
        await eventually(lambda: world.scraper.running)
        await world.engine.append(BatchPlan(urls=(f"{SITE}/b", f"{SITE}/c"), append_to_id=job.id), TEAM)
        held.set()
        await world.quiet()

        job = await world.engine.get(job.id, TEAM)
        assert (job.state, job.completed) == (EmulatedJobState.COMPLETED, 3)
        assert world.endpoint.types.count("batch_scrape.completed") == 1


async def test_a_batch_that_was_cancelled_does_not_grow() -> None:
    """Neither does one of another team, or a crawl."""
    async with open_world(PAGES, max_concurrency=1) as world:
        held = world.scraper.hold_after(0)
        job = await world.engine.start(BatchPlan(urls=(f"{SITE}/a",)), TEAM)
        await world.engine.cancel(job.id, TEAM)
        held.set()
        await world.quiet()
        with pytest.raises(JobEnded):
            await world.engine.append(BatchPlan(urls=(f"{SITE}/b",), append_to_id=job.id), TEAM)
        with pytest.raises(JobNotFound):
            await world.engine.append(BatchPlan(urls=(f"{SITE}/b",), append_to_id=job.id), "team-2")
        crawl = await world.crawl(f"{SITE}/a")
        with pytest.raises(JobNotFound):
            await world.engine.append(BatchPlan(urls=(f"{SITE}/b",), append_to_id=crawl.id), TEAM)


@pytest.mark.parametrize(
    "plan",
    [
        CrawlPlan(
            url=SITE,
            include_paths=("a", "b"),
            delay=0.5,
            webhook=WebhookTarget(HOOK, {"X-Own": "1"}, {"case": "7"}, ("page",)),
            scrape=ScrapePlan(
                url="",
                version=1,
                formats=({"type": "json", "schema": {"type": "object"}}, {"type": "markdown"}),
                headers={"Cookie": "a=b"},
                actions=({"type": "wait", "milliseconds": 1},),
                threat_protection={"mode": "normal"},
            ),
            body={"url": SITE, "limit": 3},
        ),
        BatchPlan(urls=(), max_concurrency=3, webhook=WebhookTarget(HOOK), invalid_urls=("x",)),
    ],
)
def test_a_plan_is_the_same_after_a_restart(plan: CrawlPlan | BatchPlan) -> None:
    """Every field comes back as it was."""
    kind = JobKind.CRAWL if isinstance(plan, CrawlPlan) else JobKind.BATCH

    assert plan_from_json(kind, plan_to_json(plan)) == plan
