"""The operations of a search: POST /v1/search and POST /v2/search."""

import asyncio
from dataclasses import replace
from typing import Literal, Protocol

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation, CallRefused, Handle
from receiver.emulator.contracts import Account, NoteAnswer
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.ids import IdSource
from receiver.emulator.scrapes import Json, Scraper
from receiver.emulator.scraping.cache import KeptScrapes
from receiver.emulator.search.engine import SearchEngine, SearchFindings
from receiver.emulator.search.finding import PageHit, PictureHit
from receiver.emulator.search.queries import category_of
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.searches import SearchPlan, read_developer_search, read_gov_search, read_search
from receiver.requests import prices

_AT_ONCE = 5
"""Hits of one search that are scraped at one time."""


class FetchLimits(Protocol):
    """Knows which addresses are fetched."""

    def refuses(self, url: str) -> bool:
        """Tell whether the emulator may not fetch from this address, as far as the address tells."""


class SearchOperations:
    """Searches for a call, scrapes the hits if it asks for that, and charges for both."""

    def __init__(
        self,
        *,
        engine: SearchEngine,
        scraper: Scraper,
        limits: FetchLimits,
        account: Account,
        kept: KeptScrapes,
        ids: IdSource,
        note: NoteAnswer,
        policy: RequestPolicy,
    ) -> None:
        self._engine = engine
        self._scraper = scraper
        self._limits = limits
        self._account = account
        self._kept = kept
        self._ids = ids
        self._note = note
        self._policy = policy

    def operations(self) -> list[ApiOperation]:
        """Return the operations."""
        return [ApiOperation("POST", f"/v{version}/search", self.search, "search") for version in (1, 2)]

    async def search(self, call: ApiCall) -> Answer:
        """Answer with the hits of each source that was asked for."""
        plan = read_search(call.body, call.version, self._policy)
        ends_at = asyncio.get_running_loop().time() + plan.timeout / 1000
        found = await self._engine.search(plan)
        if plan.ignore_invalid_urls:
            found.web = [hit for hit in found.web if not self._limits.refuses(hit.url)]
            found.news = [hit for hit in found.news if not self._limits.refuses(hit.url)]
        web = [_web_item(hit, place, plan) for place, hit in enumerate(found.web, 1)]
        news = [_news_item(hit, place, plan) for place, hit in enumerate(found.news, 1)]
        cost = prices.SEARCH * -(-found.count // 10) + found.check_credits
        if plan.scrape is not None:
            cost += await self._scrape([*web, *news], plan, call.team, ends_at, found.warnings)
        await self._account.charge(call.team, cost)
        body = self._body(plan, found, web, news, cost)
        await self._note(call.team, body["id"], "search")
        return Answer(body)

    def _body(self, plan: SearchPlan, found: SearchFindings, web: list[Json], news: list[Json], cost: int) -> Json:
        data: Json = {}
        if "web" in plan.sources:
            data["web"] = web
        if "news" in plan.sources:
            data["news"] = news
        if "images" in plan.sources:
            data["images"] = [_image_item(hit, place) for place, hit in enumerate(found.images, 1)]
        body: Json = {"success": True, "data": data if plan.version == 2 else web}
        if plan.version == 2:
            body["creditsUsed"] = cost
        body["id"] = self._ids.new()
        if found.warnings:
            body["warning"] = " ".join(dict.fromkeys(found.warnings))
        return body

    async def _scrape(
        self, items: list[Json], plan: SearchPlan, team: str, ends_at: float, warnings: list[str]
    ) -> int:
        """Put the document of each hit into its item, as far as time allows, and return what that costs."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(item: Json) -> int:
            async with turns:
                return await self._scrape_one(item, plan, team)

        tasks = [asyncio.create_task(one(item)) for item in items]
        if not tasks:
            return 0
        try:
            left = max(0.0, ends_at - asyncio.get_running_loop().time())
            done, late = await asyncio.wait(tasks, timeout=left)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if late:
            warnings.append(f"{len(late)} of the hits were not scraped within the time-out.")
        failed = sum("error" in item.get("metadata", {}) and "scrapeId" not in item["metadata"] for item in items)
        if failed:
            warnings.append(f"{failed} of the hits could not be scraped: their metadata says why.")
        return sum(task.result() for task in done)

    async def _scrape_one(self, item: Json, plan: SearchPlan, team: str) -> int:
        assert plan.scrape is not None  # noqa: S101 - for mypy
        url = item["url"]
        try:
            page = await self._scraper.scrape(replace(plan.scrape, url=url), history_team=team)
        except ScrapeFailed as exc:
            item["metadata"] = {"sourceURL": url, "url": url, "statusCode": exc.status, "error": str(exc)}
            return exc.credits
        if plan.is_kept:
            await self._kept.put(team, page)
        item |= page.document
        return page.credits


def _web_item(hit: PageHit, place: int, plan: SearchPlan) -> Json:
    item: Json = {"url": hit.url, "title": hit.title, "description": hit.passage}
    if plan.version == 2:
        item["position"] = place
        if (category := category_of(hit.url, plan.categories)) is not None:
            item["category"] = category
    return item


def _news_item(hit: PageHit, place: int, plan: SearchPlan) -> Json:
    item: Json = {"title": hit.title, "url": hit.url, "snippet": hit.passage}
    if hit.published:
        item["date"] = hit.published
    if hit.picture:
        item["imageUrl"] = hit.picture
    item["position"] = place
    if (category := category_of(hit.url, plan.categories)) is not None:
        item["category"] = category
    return item


def _image_item(hit: PictureHit, place: int) -> Json:
    item: Json = {"title": hit.title, "imageUrl": hit.image}
    if hit.width is not None:
        item["imageWidth"] = hit.width
    if hit.height is not None:
        item["imageHeight"] = hit.height
    return item | {"url": hit.url, "position": place}


# FOLDED: Operations of the SDKs beside the families: searches of special indexes, and what the emulator does not
# have.
_PAPERS = (
    "The emulator has no index of papers. POST /v2/search with categories ['research'] searches pages about them"
)
_DEEP = "The service gave up deep research, and the emulator does not have it: POST /v2/agent works on a question"
_LLMS = "The service gave up llms.txt files, and the emulator does not make them: POST /v2/map lists the pages"
_REMOVED = "The service removed this search on 2026-11-03. POST /v2/search/developer searches code pages"
ABSENT: dict[tuple[Literal["GET", "POST"], str], str] = {
    ("GET", "/v2/search/research/papers"): _PAPERS,
    ("GET", "/v2/search/research/papers/{id}"): _PAPERS,
    ("GET", "/v2/search/research/papers/{id}/similar"): _PAPERS,
    ("POST", "/v1/deep-research"): _DEEP,
    ("GET", "/v1/deep-research/{id}"): _DEEP,
    ("POST", "/v1/llmstxt"): _LLMS,
    ("GET", "/v1/llmstxt/{id}"): _LLMS,
}
"""What SDKs can call and the emulator does not do, with what does the same or nearly so."""


class FindPages(Protocol):
    """Finds pages for plans."""

    async def search(self, plan: SearchPlan) -> SearchFindings:
        """Return the hits of a search within its time-out."""


class OtherSearches:
    """Searches the emulator's own index, as far as its pages are of the kind that is asked for."""

    def __init__(self, engine: FindPages, account: Account, policy: RequestPolicy) -> None:
        self._engine = engine
        self._account = account
        self._policy = policy

    def operations(self) -> list[ApiOperation]:
        """Return the operations. What the emulator does not have is answered with status 501, and says so."""
        return [
            ApiOperation("POST", "/v2/search/gov", self.gov, "search"),
            ApiOperation("POST", "/v2/search/developer", self.developer, "search"),
            # The service's SDK 4.55 says that the API answers 410 from that day on.
            ApiOperation("GET", "/v2/search/research/github", _refuse(_REMOVED, 410), "account"),
            *(ApiOperation(method, path, _refuse(text), "account") for (method, path), text in ABSENT.items()),
        ]

    async def gov(self, call: ApiCall) -> Answer:
        """Answer with pages of governments."""
        plan, ignored = read_gov_search(call.body, self._policy)
        found = await self._found(plan, call.team)
        web = [
            {
                "url": hit.url,
                "title": hit.title,
                "description": hit.passage,
                "position": place,
                "category": category,
            }
            for place, hit in enumerate(found.web, 1)
            if (category := category_of(hit.url, plan.categories)) is not None
        ]
        return Answer(
            _with_warnings({"success": True, "data": {"web": web}}, [*_ignored(ignored), *found.warnings])
        )

    async def developer(self, call: ApiCall) -> Answer:
        """Answer with pages for developers."""
        plan, ignored = read_developer_search(call.body, self._policy)
        found = await self._found(plan, call.team)
        results = [
            {
                "id": hit.url,
                "url": hit.url,
                "title": hit.title,
                "passages": [{"text": hit.passage, "citation_url": hit.url}],
            }
            for hit in found.web
        ]
        return Answer(_with_warnings({"success": True, "results": results}, [*_ignored(ignored), *found.warnings]))

    async def _found(self, plan: SearchPlan, team: str) -> SearchFindings:
        found = await self._engine.search(plan)
        await self._account.charge(team, prices.SEARCH * -(-found.count // 10) + found.check_credits)
        return found


def _refuse(text: str, status: Literal[410, 501] = 501) -> Handle:
    async def refuse(call: ApiCall) -> Answer:
        raise CallRefused(status, text, code="NOT_IMPLEMENTED" if status == 501 else None)

    return refuse


def _ignored(filters: list[str]) -> list[str]:
    return [f"The emulator knows pages only: {', '.join(filters)} had no effect."] if filters else []


def _with_warnings(body: Json, warnings: list[str]) -> Json:
    return {**body, "warning": " ".join(dict.fromkeys(warnings))} if warnings else body
