"""The operations of a map: POST /v1/map and POST /v2/map."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from receiver.emulator.api.calls import Answer, ApiCall, ApiOperation
from receiver.emulator.contracts import Account, NoteAnswer
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.robots import fetch_robots
from receiver.emulator.fetching.scope import SiteLink, SiteLinks, described, sorted_by_likeness
from receiver.emulator.fetching.sitemaps import sitemap_urls
from receiver.emulator.fetching.web_urls import without_credentials
from receiver.emulator.ids import IdSource
from receiver.emulator.scrapes import Json, ScrapedPage, Scraper
from receiver.emulator.scraping.history import KnownUrls
from receiver.emulator.wire.bodies import RequestPolicy
from receiver.emulator.wire.maps import MapPlan, read_map

CREDITS = 1
_MOST = 100_000
"""The most URLs that are looked at for a search, whatever the limit."""


class MapOperations:
    """Lists the URLs of a site: from its sitemaps, the links of one page, and what was scraped before."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        scraper: Scraper,
        account: Account,
        known: KnownUrls,
        ids: IdSource,
        note: NoteAnswer,
        policy: RequestPolicy,
    ) -> None:
        self._fetcher = fetcher
        self._scraper = scraper
        self._account = account
        self._known = known
        self._ids = ids
        self._note = note
        self._policy = policy

    def operations(self) -> list[ApiOperation]:
        """Return the operations."""
        return [ApiOperation("POST", f"/v{version}/map", self.map, "map") for version in (1, 2)]

    async def map(self, call: ApiCall) -> Answer:
        """List the URLs of a site. A page that cannot be scraped is a warning; one that is blocked is refused."""
        plan = read_map(call.body, call.version, self._policy)
        warnings: list[str] = []
        try:
            async with asyncio.timeout(plan.timeout / 1000):
                found = await self._found(plan, call.team, warnings)
                links = await asyncio.to_thread(_chosen, found, plan)
        except TimeoutError:
            raise ScrapeFailed(
                "MAP_TIMEOUT", f"The map was not ready within {plan.timeout} milliseconds."
            ) from None
        except ScrapeFailed as exc:
            if exc.credits:
                await self._account.charge(call.team, exc.credits)
            raise
        await self._account.charge(call.team, CREDITS)
        body = _body(call, links, warnings)
        if call.version == 2:
            body["id"] = self._ids.new()
            await self._note(call.team, body["id"], "map")
        return Answer(body)

    async def urls_of_site(self, url: str, *, team: str, limit: int) -> list[str]:
        """Return the URLs of a map without paying for it. ScrapeFailed if the address is blocked."""
        plan = read_map({"url": url, "limit": limit}, 2, self._policy)
        try:
            async with asyncio.timeout(plan.timeout / 1000):
                return [link.url for link in await self._found(plan, team, [])]
        except TimeoutError:
            raise ScrapeFailed("MAP_TIMEOUT", f"The pages below {url} were not found in time.") from None

    async def _found(self, plan: MapPlan, team: str, warnings: list[str]) -> SiteLinks:
        most = _MOST if plan.search else plan.limit
        page = None if plan.sitemap == "only" else await self._scraped(plan, warnings)
        url = without_credentials(plan.url) if page is None else page.url
        found = SiteLinks(
            url,
            include_subdomains=plan.include_subdomains,
            ignore_query_parameters=plan.ignore_query_parameters,
            filter_by_path=plan.filter_by_path,
        )
        if page is not None and page.status < 400:
            found.add_page(described(page.url, page.document.get("metadata", {})))
        if plan.sitemap != "skip":
            await self._add_sitemaps(found, url, most)
        if page is not None:
            found.add(page.links, most)
            found.add(await self._known.of_site(team, url), most)
        return found

    async def _scraped(self, plan: MapPlan, warnings: list[str]) -> ScrapedPage | None:
        try:
            return await self._scraper.scrape(replace(plan.scrape, url=plan.url))
        except ScrapeFailed as exc:
            if exc.code == "unsafe_domain_blocked":
                raise
            warnings.append(f"The links of the page are missing. {exc}")
            return None

    async def _add_sitemaps(self, found: SiteLinks, url: str, most: int) -> None:
        robots = await fetch_robots(self._fetcher, url)
        urls = sitemap_urls(self._fetcher, url, robots)
        try:
            async for one in urls:
                found.add((one,), most)
                if len(found) >= most:
                    break
        finally:
            await urls.aclose()


def _chosen(found: SiteLinks, plan: MapPlan) -> list[SiteLink]:
    links = sorted_by_likeness(found, plan.search) if plan.search else list(found)
    return links[: plan.limit]


def _body(call: ApiCall, links: list[SiteLink], warnings: list[str]) -> Json:
    if len(links) < 2:
        warnings.append("The map has fewer than 2 URLs. A map of the root of the site has more.")
    listed = [link.url if call.version == 1 else dict(_fields(link)) for link in links]
    return {"success": True, "links": listed, **({"warning": " ".join(warnings)} if warnings else {})}


def _fields(link: SiteLink) -> Iterator[tuple[str, str]]:
    yield "url", link.url
    if link.title:
        yield "title", link.title
    if link.description:
        yield "description", link.description
