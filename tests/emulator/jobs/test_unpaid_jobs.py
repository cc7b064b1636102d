"""Jobs whose credits run out before their pages do."""

from pathlib import Path

from receiver.emulator.jobs.records import EmulatedJobState
from tests.emulator.answering import HOOK, ORIGIN, checked_service
from tests.emulator.world import SITE, MadePage, open_world, site

PAGES = {f"{SITE}/{name}": MadePage() for name in "abcdef"}


async def test_a_batch_ends_when_it_cannot_pay() -> None:
    """What it could pay for stays, every other page is an error, and the job has failed."""
    async with open_world(PAGES, max_concurrency=1) as world:
        world.account.had = 2
        job = await world.batch(*PAGES, webhook=True)

        assert (job.state, job.completed, job.failed, job.credits) == (EmulatedJobState.FAILED, 2, 4, 2)
        assert world.account.charged == 2
        assert job.ended_at is not None
        assert "Insufficient credits" in (job.error or "")
        errors, _ = await world.engine.errors(job)
        assert {one.text.partition(":")[0] for one in errors} == {"Insufficient credits"}
        assert len(world.scraper.scraped) == 3

    family = "batch_scrape"
    assert world.endpoint.types == [f"{family}.started", *[f"{family}.page"] * 6, f"{family}.failed"]
    last = world.endpoint.events[-1]
    assert (last["success"], last["data"]) == (False, [])
    assert "Insufficient credits" in last["error"]


async def test_pages_at_one_time_never_cost_more_than_there_is() -> None:
    """Several are scraped when the last credit goes; only one of them is paid for."""
    async with open_world(PAGES, max_concurrency=4) as world:
        world.account.had = 3
        job = await world.batch(*PAGES)

        assert (job.state, job.completed, job.credits) == (EmulatedJobState.FAILED, 3, 3)
        assert world.account.charged == 3


async def test_a_crawl_ends_when_it_cannot_pay() -> None:
    """Links that it has found already are errors; it follows no more."""
    async with open_world(site(home="a b", a="c", b="", c=""), max_concurrency=1) as world:
        world.account.had = 1
        job = await world.crawl(webhook=True)

        assert (job.state, job.completed, job.failed) == (EmulatedJobState.FAILED, 1, 2)
    assert world.endpoint.types == ["crawl.started", *["crawl.page"] * 3, "crawl.failed"]


async def test_a_restart_does_not_bring_credits(tmp_path: Path) -> None:
    """A job that ended for want of credits stays ended."""
    state = tmp_path / "emulator.db"
    async with open_world(PAGES, state=state) as world:
        world.account.had = 1
        job = await world.batch(*PAGES)
    async with open_world(PAGES, state=state, clock=world.clock) as world:
        await world.quiet()

        assert world.scraper.scraped == []
        assert (await world.engine.get(job.id, job.team)).state is EmulatedJobState.FAILED


async def test_the_status_says_why_and_credits_are_never_negative() -> None:
    """A PDF of two pages costs two credits. What is left does not pay for the last of three."""
    async with checked_service(credits=5) as service:
        urls = [f"{ORIGIN}/two.pdf?{number}" for number in range(3)]
        body = {"urls": urls, "webhook": HOOK, "maxConcurrency": 1}
        started = await service.ask("POST", "/v2/batch/scrape", body)
        events = await service.events()
        status = await service.ask("GET", f"/v2/batch/scrape/{started['id']}")
        usage = await service.ask("GET", "/v2/team/credit-usage")

    assert (status["status"], status["success"], status["completed"]) == ("failed", False, 2)
    assert "Insufficient credits" in status["error"]
    assert events[-1]["type"] == "batch_scrape.failed"
    assert usage["data"]["remainingCredits"] == 1
