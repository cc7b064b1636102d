"""Maps: from the body to a plan with every default of its version."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import JsonValue, StrictBool

from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import DEFAULT_POLICY, RequestPolicy, custom_issue, read_body, refusal
from receiver.emulator.wire.jobs import SitemapUse
from receiver.emulator.wire.scrape import LONGEST_TIMEOUT, AnyLocation, PageOptionsBody, SenderFields, plan_of
from receiver.emulator.wire.urls import WebUrl
from receiver.requests.map import MapFields, MapRequest

Json = dict[str, Any]

_LIMIT = 5_000
_TIMEOUT = 60_000


class MapBody(MapRequest, SenderFields):
    """The body of POST /v2/map."""

    url: WebUrl
    location: AnyLocation | None = None


class MapBodyV1(MapFields, SenderFields):
    """The body of POST /v1/map."""

    url: WebUrl
    location: AnyLocation | None = None
    ignore_sitemap: StrictBool = False
    sitemap_only: StrictBool = False
    use_index: JsonValue = None
    """The emulator has no index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPlan:
    """A list of the URLs of a site."""

    url: str
    """Absolute URL with a scheme, otherwise as it was written."""
    search: str | None = None
    """Words; URLs similar to them come first."""
    sitemap: SitemapUse = "include"
    """Version 1 has two flags for it."""
    include_subdomains: bool = True
    """All hosts of the registrable domain count."""
    ignore_query_parameters: bool = True
    """URLs are listed without their query."""
    filter_by_path: bool = True
    """Only URLs below the path of `url` count."""
    limit: int = _LIMIT
    timeout: int = _TIMEOUT
    """Milliseconds of real time for the whole map."""
    scrape: ScrapePlan = field(default_factory=lambda: ScrapePlan(url=""))
    """How the page at `url` is scraped for its links."""


def read_map(body: Json, version: Literal[1, 2], policy: RequestPolicy = DEFAULT_POLICY) -> MapPlan:
    """Return the plan of POST /v1/map or /v2/map. CallRefused is the service's 400, or 403."""
    model: type[MapBodyV1 | MapBody] = MapBodyV1 if version == 1 else MapBody
    read = read_body(model, body, policy, version=version)
    timeout = min(read.timeout or _TIMEOUT, LONGEST_TIMEOUT)
    return MapPlan(
        url=read.url,
        search=read.search or None,
        sitemap=_sitemap_use(read),
        include_subdomains=read.include_subdomains is not False,
        ignore_query_parameters=read.ignore_query_parameters is not False,
        filter_by_path=read.filter_by_path is not False,
        limit=read.limit or _LIMIT,
        timeout=timeout,
        scrape=_scrape_plan(read, policy, timeout),
    )


def _sitemap_use(read: MapBody | MapBodyV1) -> SitemapUse:
    if isinstance(read, MapBody):
        return read.sitemap or "include"
    if read.ignore_sitemap and read.sitemap_only:
        raise refusal([custom_issue("sitemapOnly: not together with ignoreSitemap", "sitemapOnly")], version=1)
    if read.sitemap_only:
        return "only"
    return "skip" if read.ignore_sitemap else "include"


def _scrape_plan(read: MapBody | MapBodyV1, policy: RequestPolicy, timeout: int) -> ScrapePlan:
    options = PageOptionsBody(
        formats=("links",),
        only_main_content=False,
        headers=read.headers,
        location=read.location,
        threat_protection=read.threat_protection,
        max_age=0 if read.ignore_cache else None,
        timeout=max(timeout, 1_000),
    )
    return plan_of(options, policy, url=read.url, unkept=True)
