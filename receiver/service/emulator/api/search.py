"""The operations of a search: POST /v1/search and POST /v2/search."""

import asyncio
from dataclasses import replace
from typing import Protocol

from receiver.requests import prices
from receiver.service.emulator.api.calls import Answer, ApiCall, ApiOperation
from receiver.service.emulator.contracts import Account, NoteAnswer
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.scrapes import Json, Scraper
from receiver.service.emulator.scraping.kept import KeptScrapes
from receiver.service.emulator.search.categories import category_of
from receiver.service.emulator.search.engine import SearchEngine, SearchFindings
from receiver.service.emulator.search.hits import PageHit, PictureHit
from receiver.service.emulator.wire.policy import RequestPolicy
from receiver.service.emulator.wire.searches import SearchPlan, read_search

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
