"""Extractions and agents that search: a search is a step, and costs what a search costs."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from receiver.core.clock import VirtualClock
from receiver.emulator.clock import Activity
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.ids import IdSource
from receiver.emulator.jobs import table as job_tables
from receiver.emulator.research import table as tables
from receiver.emulator.research.engine import ResearchContext, ResearchEngine
from receiver.emulator.research.table import ResearchRecord
from receiver.emulator.scrapes import Json, ScrapedPage, ScrapePlan
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks import table
from receiver.emulator.webhooks.outbox import Outbox
from receiver.emulator.wire.research import read_agent, read_extract
from tests.doubles import soon
from tests.emulator.world import HOOK, TEAM, MadeAccount, MadeEndpoint

SITE = "https://site.test"
SCHEMA = {"type": "object", "properties": {"price": {"type": "number"}, "name": {"type": "string"}}}


@dataclass
class Pages:
    """A Scraper of pages whose data is given, and a search that finds some of them."""

    data: Mapping[str, Json]
    hits: Sequence[str] = ()
    fails: bool = False
    queries: list[str] = field(default_factory=list)

    async def scrape(self, plan: ScrapePlan, *, history_team: str = "") -> ScrapedPage:
        if plan.url not in self.data:
            raise ScrapeFailed("SCRAPE_SITE_ERROR", "no such page")
        document = {"markdown": "", "json": self.data[plan.url]}
        return ScrapedPage(
            scrape_id="1",
            source_url=plan.url,
            url=plan.url,
            status=200,
            document=document,
            links=(),
            credits=5,
        )

    async def search(self, query: str, *, team: str, limit: int) -> list[str]:
        self.queries.append(query)
        if self.fails:
            raise ScrapeFailed("SCRAPE_SITE_ERROR", "the search is broken")
        return list(self.hits[:limit])

    async def list_site(self, url: str, *, team: str, limit: int) -> list[str]:
        raise ScrapeFailed("unsafe_domain_blocked", f"{url} is blocked")


@dataclass
class Research:
    """Extractions and agents over such pages."""

    engine: ResearchEngine
    activity: Activity
    endpoint: MadeEndpoint
    account: MadeAccount

    async def ended(self, **body: Any) -> ResearchRecord:
        """Run an agent, or an extraction if nothing says agent, to its end."""
        webhook = {"url": HOOK}
        is_agent = body.pop("agent", True)
        plan = (
            read_agent({"webhook": webhook, **body}) if is_agent else read_extract({"webhook": webhook, **body}, 2)
        )
        assert plan.webhook == WebhookTarget(HOOK)
        job = await self.engine.start(plan, TEAM)
        await soon(self.activity.over())
        return await self.engine.get(plan.kind, job.id, TEAM)

    @property
    def steps(self) -> list[tuple[str, int]]:
        """What the agent told of its steps: the kind, and the credits so far."""
        steps = [one["data"][0] for one in self.endpoint.events if one["type"] == "agent.action"]
        return [(step["action"], step["creditsUsed"]) for step in steps]


@asynccontextmanager
async def over(pages: Pages, *, searches: bool = True) -> AsyncIterator[Research]:
    """Open extractions and agents over pages."""
    clock, activity, endpoint, account = VirtualClock(), Activity(), MadeEndpoint(), MadeAccount()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            StateDatabase(None, (job_tables.SCHEMA, tables.SCHEMA, table.SCHEMA))
        )
        ids = IdSource(clock, 1)
        transport = httpx.MockTransport(endpoint)
        outbox = await stack.enter_async_context(
            Outbox(
                database, clock=clock, ids=ids, activity=activity, transport=transport, network_clock=VirtualClock()
            )
        )
        context = ResearchContext(
            database=database,
            scraper=pages,
            events=outbox,
            account=account,
            clock=clock,
            ids=ids,
            activity=activity,
            list_site=pages.list_site,
            search=pages.search if searches else None,
            width=2,
        )
        engine = await stack.enter_async_context(ResearchEngine(context))
        yield Research(engine, activity, endpoint, account)


LAMP: dict[str, Json] = {
    f"{SITE}/lamp": {"name": "Lamp", "price": None},
    f"{SITE}/price": {"name": None, "price": 12},
}


async def test_an_agent_without_urls_searches_first() -> None:
    pages = Pages(LAMP, [f"{SITE}/lamp", f"{SITE}/price", f"{SITE}/unneeded"])
    async with over(pages) as research:
        job = await research.ended(prompt="What does the lamp cost?", schema=SCHEMA)

        assert job.result.data == {"name": "Lamp", "price": 12}
        assert (job.state, job.credits, research.account.charged) == ("completed", 12, 12)
        assert pages.queries == ["What does the lamp cost?"]
        assert research.steps == [("search", 2), ("scrape", 7), ("scrape", 12)]


async def test_an_agent_searches_once_for_what_its_pages_lack() -> None:
    pages = Pages(LAMP, [f"{SITE}/price"])
    async with over(pages) as research:
        job = await research.ended(prompt="the lamp", urls=[f"{SITE}/lamp"], schema=SCHEMA)

        assert job.result.data == {"name": "Lamp", "price": 12}
        assert [name for name, _ in research.steps] == ["scrape", "search", "scrape"]


async def test_a_strict_agent_does_not_search() -> None:
    pages = Pages(LAMP, [f"{SITE}/price"])
    async with over(pages) as research:
        job = await research.ended(
            prompt="the lamp", urls=[f"{SITE}/lamp"], schema=SCHEMA, strictConstrainToURLs=True
        )

        assert (job.result.data, pages.queries) == ({"name": "Lamp", "price": None}, [])


async def test_an_extraction_searches_if_it_may() -> None:
    """With enableWebSearch the hits count beside the given pages, without URLs alone."""
    for body in ({"urls": [f"{SITE}/lamp"], "enableWebSearch": True}, {"prompt": "the lamp"}):
        async with over(Pages(LAMP, [f"{SITE}/price", f"{SITE}/lamp"])) as research:
            job = await research.ended(agent=False, schema=SCHEMA, **body)

            assert job.result.data == {"name": "Lamp", "price": 12}
            assert job.credits == 12
            assert research.steps == []


async def test_a_broken_search_and_a_blocked_site_are_warnings() -> None:
    pages = Pages(LAMP, fails=True)
    async with over(pages) as research:
        urls = [f"{SITE}/lamp", f"{SITE}/*"]
        job = await research.ended(agent=False, urls=urls, schema=SCHEMA, enableWebSearch=True)

        assert (job.state, job.result.data) == ("completed", {"name": "Lamp", "price": None})
        assert job.credits == 5
        assert "the search is broken" in (job.result.warning or "")
        assert "is blocked" in (job.result.warning or "")


async def test_without_a_search_an_agent_needs_urls() -> None:
    async with over(Pages(LAMP), searches=False) as research:
        job = await research.ended(prompt="the lamp", schema=SCHEMA)

        assert (job.state, job.credits) == ("failed", 0)
        assert "give urls" in (job.error or "")


async def test_a_fault_of_ours_fails_the_job_and_says_where_it_is_logged() -> None:
    class Broken(Pages):
        async def scrape(self, plan: ScrapePlan, *, history_team: str = "") -> ScrapedPage:
            raise RuntimeError("a fault with a secret")

    async with over(Broken(LAMP)) as research:
        job = await research.ended(prompt="the lamp", urls=[f"{SITE}/lamp"])

        assert job.state == "failed"
        assert "fault of the emulator" in (job.error or "")
        assert "secret" not in (job.error or "")
        assert research.endpoint.types[-1] == "agent.failed"
