"""Crawls over a made site: which pages they take, in which order, and how they end."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.jobs.records import EmulatedJobState, JobEnded, JobExpired, JobNotFound
from receiver.emulator.wire.jobs import BatchPlan, CrawlPlan
from tests.doubles import event_of, eventually
from tests.emulator.world import HOOK, SITE, TEAM, MadePage, MadeRules, open_world, site

SMALL = site(home="a b", a="c home", b="a", c="")


async def test_a_crawl_takes_each_page_once() -> None:
    """Pages that several pages link to are one result."""
    async with open_world(SMALL, max_concurrency=1) as world:
        job = await world.crawl()

        assert (job.state, job.completed, job.total, job.failed) == (EmulatedJobState.COMPLETED, 4, 4, 0)
        assert await world.sources(job) == [f"{SITE}/", f"{SITE}/a", f"{SITE}/b", f"{SITE}/c"]
        assert job.credits == world.account.charged == 4
        assert job.ended_at == world.clock.now()


async def test_events_tell_the_story_of_a_crawl_in_order() -> None:
    """First that it has started, then each page, and at last that it is completed."""
    async with open_world(SMALL, max_concurrency=1) as world:
        job = await world.crawl(webhook=True)

    assert world.endpoint.types == ["crawl.started", *["crawl.page"] * 4, "crawl.completed"]
    assert {event["id"] for event in world.endpoint.events} == {job.id}
    assert all(event["success"] for event in world.endpoint.events)
    page = world.endpoint.events[1]
    assert list(page) == ["success", "type", "id", "webhookId", "data", "metadata"]
    assert [document["metadata"]["sourceURL"] for document in page["data"]] == [f"{SITE}/"]
    assert world.endpoint.events[0]["data"] == world.endpoint.events[-1]["data"] == []


async def test_a_limit_counts_pages_that_were_not_lost() -> None:
    """A page that fails gives its place to a link that is found later."""
    pages = site(home="a b", a="", b="c", c="") | {f"{SITE}/a": MadePage(fails="SCRAPE_SITE_ERROR")}
    async with open_world(pages, max_concurrency=1) as world:
        job = await world.crawl(limit=3)

        assert await world.sources(job) == [f"{SITE}/", f"{SITE}/b", f"{SITE}/c"]
        assert (job.completed, job.failed, job.total) == (3, 1, 3)


async def test_a_limit_ends_the_search() -> None:
    """No more pages are scraped than the limit allows."""
    async with open_world(SMALL) as world:
        job = await world.crawl(limit=2)

        assert (job.completed, job.total) == (2, 2)
        assert len(world.scraper.scraped) == 2


@pytest.mark.parametrize(("depth", "count"), [(0, 1), (1, 3), (2, 4), (None, 5)])
async def test_a_discovery_depth_bounds_how_far_links_are_followed(depth: int | None, count: int) -> None:
    """Depth 0 is the first page and the sitemap."""
    async with open_world(site(home="a b", a="c", b="", c="d", d="")) as world:
        job = await world.crawl(max_discovery_depth=depth)

    assert job.completed == count


@pytest.mark.parametrize(
    ("use", "expected"),
    [("include", {"", "a", "b", "listed"}), ("skip", {"", "a", "b"}), ("only", {"", "listed"})],
)
async def test_a_sitemap_is_used_as_asked_for(use: str, expected: set[str]) -> None:
    """Its pages have depth 0; with `only` no links are followed."""
    rules = MadeRules(listed=[[f"{SITE}/listed", "https://other.test/x"]])
    async with open_world(site(home="a b", a="", b="", listed="a"), rules=rules) as world:
        job = await world.crawl(sitemap=use)

        assert set(await world.sources(job)) == {f"{SITE}/{name}" for name in expected}


async def test_a_sitemap_is_read_no_further_than_the_limit() -> None:
    """What has no place is not looked at."""
    rules = MadeRules(listed=[[f"{SITE}/p{number}" for number in range(10)], ["https://never.test/"]])
    pages = site(home="") | {f"{SITE}/p{number}": MadePage() for number in range(10)}
    async with open_world(pages, rules=rules) as world:
        job = await world.crawl(limit=5)

    assert job.completed == 5
    assert "https://never.test/" not in rules.asked


async def test_urls_that_robots_forbids_are_listed_and_not_scraped() -> None:
    """They are no errors, and no events tell of them."""
    rules = MadeRules(robots=[f"{SITE}/b"])
    async with open_world(SMALL, rules=rules) as world:
        job = await world.crawl(webhook=True)
        errors, blocked = await world.engine.errors(job)

    assert (job.completed, job.blocked, errors, blocked) == (3, 1, [], [f"{SITE}/b"])
    assert f"{SITE}/b" not in world.scraper.scraped


async def test_a_first_page_that_robots_forbids_is_not_fetched() -> None:
    """It is an error of the crawl, and listed."""
    async with open_world(SMALL, rules=MadeRules(robots=[f"{SITE}/"])) as world:
        job = await world.crawl()
        errors, blocked = await world.engine.errors(job)

    assert (job.state, job.completed, world.scraper.scraped) == (EmulatedJobState.COMPLETED, 0, [])
    assert [(one.url, one.code) for one in errors] == [(f"{SITE}/", "CRAWL_DENIAL")]
    assert blocked == [f"{SITE}/"]


async def test_a_first_page_that_the_filters_leave_out_gives_its_links() -> None:
    """The page itself is an error."""
    async with open_world(SMALL, rules=MadeRules(left_out=[f"{SITE}/"])) as world:
        job = await world.crawl()
        errors, _ = await world.engine.errors(job)

        assert set(await world.sources(job)) == {f"{SITE}/a", f"{SITE}/b", f"{SITE}/c"}
        assert [(one.url, one.code) for one in errors] == [(f"{SITE}/", "CRAWL_DENIAL")]
        assert world.account.charged == 3


async def test_a_redirect_out_of_the_crawl_is_an_error() -> None:
    """Its code says that the crawl does not take the page."""
    pages = SMALL | {f"{SITE}/a": MadePage([f"{SITE}/never"], leads_to="https://other.test/")}
    async with open_world(pages) as world:
        job = await world.crawl(webhook=True)
        errors, _ = await world.engine.errors(job)

    assert [(one.url, one.code, one.text) for one in errors] == [(f"{SITE}/a", "CRAWL_DENIAL", "it is elsewhere")]
    (event,) = [one for one in world.endpoint.events if not one["success"]]
    assert (event["error"], event["data"]) == ("it is elsewhere", [{"metadata": {"sourceURL": f"{SITE}/a"}}])
    assert list(event) == ["success", "type", "id", "webhookId", "data", "error", "metadata"]


async def test_a_redirect_to_a_visited_page_is_silent() -> None:
    """Two URLs that lead to one page are one result, without error and without event."""
    pages = site(home="a b", b="") | {f"{SITE}/a": MadePage(leads_to=f"{SITE}/b")}
    async with open_world(pages, max_concurrency=1) as world:
        job = await world.crawl(webhook=True)
        errors, _ = await world.engine.errors(job)

    assert (job.completed, job.failed, job.total, errors) == (2, 1, 2, [])
    assert world.endpoint.types.count("crawl.page") == 2


async def test_a_first_page_that_moves_takes_the_crawl_along() -> None:
    """The new host is the origin from then on."""
    there = "https://www.there.test"
    pages = {
        f"{SITE}/": MadePage([f"{there}/a", f"{SITE}/old"], leads_to=f"{there}/"),
        f"{there}/a": MadePage(),
        f"{SITE}/old": MadePage(),
    }
    async with open_world(pages) as world:
        job = await world.crawl()

        assert await world.sources(job) == [f"{SITE}/", f"{there}/a"]


async def test_a_page_that_crashes_is_an_error_of_that_page(caplog: pytest.LogCaptureFixture) -> None:
    """The job goes on, and the text refers to the log."""
    pages = SMALL | {f"{SITE}/a": MadePage(crashes=True)}
    async with open_world(pages) as world:
        job = await world.crawl()
        (error,), _ = await world.engine.errors(job)

    assert (job.state, job.completed) == (EmulatedJobState.COMPLETED, 2)
    (record,) = [record for record in caplog.records if event_of(record) == "page_crashed"]
    assert error.code == "UNKNOWN_ERROR"
    assert vars(record)["fault"] in error.text


async def test_a_job_that_crashes_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Its status, its event and the log say so."""

    class BrokenRules(MadeRules):
        def key(self, url: str) -> str:
            raise RuntimeError("a fault in the code")

    async with open_world(SMALL, rules=BrokenRules()) as world:
        job = await world.crawl(webhook=True)

    assert job.state is EmulatedJobState.FAILED
    assert job.ended_at is not None
    assert [event_of(record) for record in caplog.records] == ["job_crashed"]
    assert world.endpoint.types == ["crawl.started", "crawl.failed"]
    last = world.endpoint.events[-1]
    assert (last["success"], last["error"]) == (False, job.error)


async def test_a_cancelled_crawl_fails_its_waiting_pages_and_still_completes() -> None:
    """Pages that have begun end as they would; after them comes the completed event."""
    pages = {f"{SITE}/": MadePage([f"{SITE}/{number}" for number in range(500)])}
    pages |= {f"{SITE}/{number}": MadePage() for number in range(500)}
    async with open_world(pages, max_concurrency=2) as world:
        held = world.scraper.hold_after(1)
        job = await world.engine.start(CrawlPlan(url=f"{SITE}/", webhook=WebhookTarget(HOOK)), TEAM)
        await eventually(lambda: world.scraper.running == 2)
        await world.engine.cancel(job.id, TEAM)
        cancelled = await world.engine.get(job.id, TEAM)
        assert (cancelled.state, cancelled.ended_at) == (EmulatedJobState.CANCELLED, None)
        held.set()
        await world.quiet()

        job = await world.engine.get(job.id, TEAM)
        errors, _ = await world.engine.errors(job)
        assert (job.state, job.completed, job.failed, job.total) == (EmulatedJobState.CANCELLED, 3, 498, 3)
        assert {(one.code, one.text) for one in errors} == {("", "Parent crawl/batch scrape was cancelled")}
        assert len(errors) == 498
        assert world.endpoint.types[-1] == "crawl.completed"
        assert world.endpoint.events[-1]["success"]
        assert world.endpoint.types.count("crawl.page") == 501
        await world.engine.cancel(job.id, TEAM)  # once more changes nothing


async def test_a_completed_crawl_cannot_be_cancelled() -> None:
    """The answer is that it has ended."""
    async with open_world(SMALL) as world:
        job = await world.crawl()
        with pytest.raises(JobEnded):
            await world.engine.cancel(job.id, TEAM)


async def test_a_delay_lies_between_the_pages_on_the_clock_of_the_emulator() -> None:
    """One page at a time, and nothing while the clock stands still."""
    async with open_world(SMALL) as world:
        job = await world.crawl(delay=2.0, max_concurrency=1)
        seen = [job.completed]
        for _ in range(3):
            await world.pass_time(seconds=2)
            seen.append((await world.engine.get(job.id, TEAM)).completed)

        assert seen == [1, 2, 3, 4]
        job = await world.engine.get(job.id, TEAM)
        assert job.ended_at is not None
        assert job.ended_at - job.created_at == timedelta(seconds=6)


async def test_a_cancel_ends_a_delay() -> None:
    """The rest is not waited for."""
    async with open_world(SMALL) as world:
        job = await world.crawl(delay=60.0, max_concurrency=1)
        await world.engine.cancel(job.id, TEAM)
        await world.quiet()

        job = await world.engine.get(job.id, TEAM)
        assert (job.completed, job.failed) == (1, 2)
        assert job.ended_at is not None


@pytest.mark.parametrize(("own", "of_team", "most"), [(None, 3, 3), (2, 3, 2), (9, 3, 3)])
async def test_pages_are_scraped_side_by_side_within_the_limits(own: int | None, of_team: int, most: int) -> None:
    """The job's own limit, and that of the team."""
    pages = {f"{SITE}/": MadePage([f"{SITE}/{number}" for number in range(20)])}
    pages |= {f"{SITE}/{number}": MadePage() for number in range(20)}
    async with open_world(pages, max_concurrency=of_team) as world:
        held = world.scraper.hold_after(1)
        await world.engine.start(CrawlPlan(url=f"{SITE}/", max_concurrency=own), TEAM)
        await eventually(lambda: world.scraper.running == most)
        held.set()
        await world.quiet()

    assert world.scraper.most == most


async def test_jobs_of_one_team_share_its_slots() -> None:
    """Another team has its own."""
    pages = {f"{SITE}/{number}": MadePage() for number in range(20)}
    async with open_world(pages, max_concurrency=2) as world:
        held = world.scraper.hold_after(0)
        for team in ("one", "one", "two"):
            await world.engine.start(BatchPlan(urls=tuple(pages)), team)
        await eventually(lambda: world.scraper.running == 4)

        queue = await world.engine.queue_of("one")
        assert (queue.active, queue.waiting, queue.last_success) == (2, 38, None)
        held.set()
        await world.quiet()
        queue = await world.engine.queue_of("one")
        assert (queue.active, queue.waiting, queue.last_success) == (0, 0, world.clock.now())


async def test_results_expire_after_a_day_on_the_clock_of_the_emulator() -> None:
    """Their rows are deleted; that they have expired is remembered for a week."""
    async with open_world(SMALL) as world:
        job = await world.crawl()
        await world.pass_time(hours=23, minutes=59)
        assert (await world.engine.get(job.id, TEAM)).completed == 4
        await world.pass_time(minutes=1)
        with pytest.raises(JobExpired):
            await world.engine.get(job.id, TEAM)
        await world.pass_time(hours=2)
        assert not (await world.engine.documents(job)).documents
        await world.pass_time(days=8)
        with pytest.raises(JobNotFound) as raised:
            await world.engine.get(job.id, TEAM)
        assert type(raised.value) is JobNotFound


async def test_a_warning_of_a_page_is_part_of_its_document() -> None:
    """Results and events have it."""
    pages = {f"{SITE}/": replace(MadePage(), warning="no screenshot")}
    async with open_world(pages) as world:
        job = await world.crawl(webhook=True)
        page = await world.engine.documents(job)

    assert page.documents[0]["warning"] == "no screenshot"
    assert world.endpoint.events[1]["data"] == page.documents
