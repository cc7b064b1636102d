"""Any site, crawled under any limits, with a stop in the middle: the same pages as by a simple search."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from receiver.core.clock import VirtualClock
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.jobs.records import EmulatedJobState
from receiver.emulator.wire.jobs import CrawlPlan
from tests.doubles import turns
from tests.emulator.world import HOOK, SITE, TEAM, MadePage, open_world

NUMBERS = st.integers(0, 11)
SITES = st.lists(
    st.tuples(st.lists(NUMBERS, max_size=6), st.sampled_from(["", "", "", "fails", "crashes"])), max_size=12
)


def made(graph: list[tuple[list[int], str]]) -> dict[str, MadePage]:
    return {
        f"{SITE}/{number}": MadePage(
            [f"{SITE}/{to}" for to in links],
            fails="SCRAPE_SITE_ERROR" if end == "fails" else None,
            crashes=end == "crashes",
        )
        for number, (links, end) in enumerate(graph)
    }


def reachable(pages: dict[str, MadePage], depth: int | None) -> tuple[set[str], set[str]]:
    """Return the pages that a crawl scrapes, and those that it cannot."""
    found, wave = {f"{SITE}/0"}, [f"{SITE}/0"]
    scraped, failed = set(), set()
    level = 0
    while wave:
        links: list[str] = []
        for url in wave:
            page = pages.get(url)
            if page is None or page.fails or page.crashes:
                failed.add(url)
                continue
            scraped.add(url)
            if depth is None or level < depth:
                links += page.links
        wave = [url for url in dict.fromkeys(links) if url not in found]
        found |= set(wave)
        level += 1
    return scraped, failed


@given(SITES, st.none() | st.integers(0, 3), st.integers(1, 4))
def test_a_crawl_brings_what_can_be_reached(
    graph: list[tuple[list[int], str]], depth: int | None, width: int
) -> None:
    """Each page once, as result or as error, and one event for each."""
    pages = made(graph)
    scraped, failed = reachable(pages, depth)

    async def story() -> None:
        # Pages of one depth can end in any order, so a page may be found by a longer way first: only one at a time
        # is a breadth-first search.
        async with open_world(pages, max_concurrency=1 if depth is not None else width) as world:
            job = await world.crawl(f"{SITE}/0", webhook=True, max_discovery_depth=depth)
            errors, _ = await world.engine.errors(job)
            assert sorted(await world.sources(job)) == sorted(scraped)
            assert sorted(one.url for one in errors) == sorted(failed)
            assert (job.completed, job.failed, job.total) == (len(scraped), len(failed), len(scraped))
            assert world.endpoint.types.count("crawl.page") == len(scraped) + len(failed)
            assert world.endpoint.types[0] == "crawl.started"
            assert world.endpoint.types[-1] == "crawl.completed"

    asyncio.run(story())


@given(SITES, st.integers(1, 8), st.integers(1, 4))
def test_a_crawl_never_has_more_results_than_its_limit(
    graph: list[tuple[list[int], str]], limit: int, width: int
) -> None:
    """And it has as many if no page fails."""
    pages = made(graph)
    scraped, failed = reachable(pages, None)

    async def story() -> None:
        async with open_world(pages, max_concurrency=width) as world:
            job = await world.crawl(f"{SITE}/0", limit=limit)
            assert job.completed <= limit
            assert set(await world.sources(job)) <= scraped
            if not failed:
                assert job.completed == min(limit, len(scraped))

    asyncio.run(story())


@given(SITES, st.lists(st.integers(0, 120), max_size=4), st.integers(1, 3))
def test_a_crawl_that_is_stopped_again_and_again_brings_the_same(
    graph: list[tuple[list[int], str]], stops: list[int], width: int
) -> None:
    """A page may be scraped twice, but counts, and is told of, once."""
    pages = made(graph)
    scraped, failed = reachable(pages, None)

    async def story(state: Path) -> None:
        clock, seen = VirtualClock(), Counter[str]()
        async with open_world(pages, state=state, clock=clock, max_concurrency=width) as world:
            plan = CrawlPlan(url=f"{SITE}/0", webhook=WebhookTarget(HOOK))
            job_id = (await world.engine.start(plan, TEAM)).id
        for stop in [*stops, None]:
            async with AsyncExitStack() as stack:
                world = await stack.enter_async_context(
                    open_world(pages, state=state, clock=clock, max_concurrency=width)
                )
                await (world.quiet() if stop is None else turns(stop))
                job = await world.engine.get(job_id, TEAM)
                sources = await world.sources(job)
            seen.update({event["webhookId"]: event["type"] for event in world.endpoint.events}.keys())

        assert job.state is EmulatedJobState.COMPLETED
        assert sorted(sources) == sorted(scraped)
        assert (job.completed, job.failed) == (len(scraped), len(failed))
        assert len(seen) == len(scraped) + len(failed) + 2

    with TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder, "state.db")))
