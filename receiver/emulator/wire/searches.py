"""Searches: from the body to a plan with every default of its version."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, StrictBool, StrictInt

from receiver.emulator.scrapes import ScrapePlan
from receiver.emulator.wire.bodies import DEFAULT_POLICY, RequestPolicy, read_body
from receiver.emulator.wire.scrape import (
    LONGEST_TIMEOUT,
    PageOptionsBody,
    PageOptionsBodyV1,
    SdkOptions,
    SenderFields,
    plan_of,
    threat_protection,
)
from receiver.requests.base import Count, Many, Request
from receiver.requests.hosts import require_host_name
from receiver.requests.options import ThreatProtection
from receiver.requests.search import SearchRequest

Json = dict[str, Any]
Source = Literal["web", "news", "images"]
Category = Literal["github", "research", "pdf", "developer", "gov"]

_LIMIT, _LIMIT_V1 = 10, 5
_TIMEOUT = 60_000


def _require_words(value: str) -> str:
    if not value.strip():
        raise ValueError("query: it has to say what is searched for")
    return value


def _as_name(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else value


Query = Annotated[str, AfterValidator(_require_words)]


class SearchBody(SearchRequest, SdkOptions):
    """The body of POST /v2/search."""

    query: Query
    sources: Many[Annotated[Source, BeforeValidator(_as_name)]] | None = None
    categories: Many[Annotated[Category, BeforeValidator(_as_name)]] | None = None
    scrape_options: PageOptionsBody | None = None
    highlights: JsonValue = None
    """Passages for each hit; here each hit has one as its description."""
    enterprise: Many[str] | None = None
    """`zdr` keeps nothing of the search; `anon` hides the sender, and has no effect here."""


class SearchBodyV1(Request, SdkOptions):
    """The body of POST /v1/search."""

    query: Query
    limit: Annotated[StrictInt, Field(ge=1, le=100)] = _LIMIT_V1
    tbs: str | None = None
    """The age of hits, in the terms of the search engine."""
    filter: str | None = None
    """A filter of the search engine. It has no effect here, nor have language, country and location."""
    lang: str | None = None
    country: str | None = None
    location: str | None = None
    timeout: Count | None = None
    """Milliseconds after which the search fails."""
    ignore_invalid_urls: Annotated[StrictBool, Field(alias="ignoreInvalidURLs")] = False
    threat_protection: ThreatProtection | None = None
    """Checks of URLs, instead of the organisation's."""
    scrape_options: PageOptionsBodyV1 | None = None
    """How each hit is scraped. Without `formats` in it, hits are not scraped."""


class GovSearchBody(Request, SenderFields):
    """The body of POST /v2/search/gov, with the filters of the service's SDK 4.55. Pages have no such labels."""

    query: Query
    k: Annotated[StrictInt, Field(ge=1, le=100)] = _LIMIT
    domain: Annotated[str, AfterValidator(require_host_name)] | None = None
    jurisdiction: str | None = None
    """`us`, or a state such as `us-ca`."""
    court: str | None = None
    court_type: str | None = None
    cites: str | None = None


class DeveloperSearchBody(Request, SenderFields):
    """The body of POST /v2/search/developer: filters for pages and repositories, under their wire names."""

    model_config = ConfigDict(alias_generator=None)

    query: Query
    k: Annotated[StrictInt, Field(ge=1, le=100)] = _LIMIT
    passages: Annotated[StrictInt, Field(ge=1, le=5)] = 1
    """The most passages of a hit; here each has one."""
    types: Many[Literal["doc", "issue", "pull_request", "readme"]] | None = None
    repos: Many[str] | None = None
    sources: Many[str] | None = None
    language: str | None = None
    topic: Many[str] | None = None
    license: str | None = None
    min_stars: Count | None = None
    max_stars: Count | None = None
    archived: StrictBool | None = None
    fork: StrictBool | None = None
    skills: Literal["only"] | None = None
    """Only instructions for agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """A search with its sources, filters and scrapes."""

    query: str
    version: Literal[1, 2] = 2
    limit: int = _LIMIT
    """The most hits of each source."""
    sources: tuple[Source, ...] = ("web",)
    categories: tuple[Category, ...] = ()
    """Kinds of sites or files; empty for all."""
    include_domains: tuple[str, ...] = ()
    """Only pages of these hosts; empty for all."""
    exclude_domains: tuple[str, ...] = ()
    tbs: str = ""
    """The age and the order of hits, in the terms of the search engine."""
    timeout: int = _TIMEOUT
    """Milliseconds of real time for the search itself, and for the scrapes of its hits."""
    ignore_invalid_urls: bool = False
    threat_protection: Json | None = None
    """The policy of the request, with wire names."""
    scrape: ScrapePlan | None = None
    """How each hit is scraped, without its URL; None if hits are not scraped."""
    is_kept: bool = True
    without_effect: tuple[str, ...] = ()
    """Wire names of options that the caller set and that have no effect here."""


def read_search(body: Json, version: Literal[1, 2], policy: RequestPolicy = DEFAULT_POLICY) -> SearchPlan:
    """Return the plan of POST /v1/search or /v2/search. CallRefused is the service's 400, or 403."""
    return _plan_v1(body, policy) if version == 1 else _plan_v2(body, policy)


def read_gov_search(body: Json, policy: RequestPolicy = DEFAULT_POLICY) -> tuple[SearchPlan, list[str]]:
    """Return the plan of POST /v2/search/gov, and the names of filters without effect here."""
    read = read_body(GovSearchBody, body, policy)
    domains = () if read.domain is None else (read.domain,)
    plan = SearchPlan(query=read.query, limit=read.k, categories=("gov",), include_domains=domains)
    labels = {
        "cites": read.cites,
        "court": read.court,
        "courtType": read.court_type,
        "jurisdiction": read.jurisdiction,
    }
    return plan, [name for name, value in labels.items() if value is not None]


def read_developer_search(body: Json, policy: RequestPolicy = DEFAULT_POLICY) -> tuple[SearchPlan, list[str]]:
    """Return the plan of POST /v2/search/developer, and the names of filters without effect here."""
    read = read_body(DeveloperSearchBody, body, policy)
    without_effect = read.model_fields_set - {"query", "k", "passages", *SenderFields.model_fields}
    return SearchPlan(query=read.query, limit=read.k, categories=("developer",)), sorted(without_effect)


def _plan_v1(body: Json, policy: RequestPolicy) -> SearchPlan:
    read = read_body(SearchBodyV1, body, policy, version=1)
    scrape = None
    if read.scrape_options is not None and "formats" in read.scrape_options.model_fields_set:
        scrape = _scrape_plan(read.scrape_options, read, policy, is_kept=True)
    return SearchPlan(
        query=read.query,
        version=1,
        limit=read.limit,
        tbs=read.tbs or "",
        timeout=_timeout(read.timeout),
        ignore_invalid_urls=read.ignore_invalid_urls,
        threat_protection=threat_protection(read.threat_protection, policy),
        scrape=scrape,
        without_effect=tuple(_without_effect(read)),
    )


def _plan_v2(body: Json, policy: RequestPolicy) -> SearchPlan:
    read = read_body(SearchBody, body, policy)
    is_kept = "zdr" not in (read.enterprise or ())
    options = read.scrape_options
    scrape = None
    if options is not None and options.model_fields_set and options.formats != ():
        scrape = _scrape_plan(options, read, policy, is_kept=is_kept)
    return SearchPlan(
        query=read.query,
        limit=read.limit or _LIMIT,
        sources=tuple(dict.fromkeys(read.sources or ("web",))),
        categories=tuple(dict.fromkeys(read.categories or ())),
        include_domains=tuple(read.include_domains or ()),
        exclude_domains=tuple(read.exclude_domains or ()),
        tbs=read.tbs or "",
        timeout=_timeout(read.timeout),
        ignore_invalid_urls=read.ignore_invalid_urls is True,
        threat_protection=threat_protection(read.threat_protection, policy),
        scrape=scrape,
        is_kept=is_kept,
        without_effect=tuple(_without_effect(read)),
    )


def _timeout(asked: int | None) -> int:
    return min(asked or _TIMEOUT, LONGEST_TIMEOUT)


def _scrape_plan(
    options: PageOptionsBody | PageOptionsBodyV1,
    body: SearchBody | SearchBodyV1,
    policy: RequestPolicy,
    *,
    is_kept: bool,
) -> ScrapePlan | None:
    plan = plan_of(options, policy, path=("scrapeOptions",), origin=body.origin, unkept=not is_kept)
    return plan if plan.formats else None


def _without_effect(read: SearchBody | SearchBodyV1) -> Iterator[str]:
    """Yield the wire names of options without effect here. SDKs always send the language and the country."""
    if read.location and read.location.casefold() not in ("us", "united states"):
        yield "location"
    if (read.country or "us").casefold() != "us":
        yield "country"
    if isinstance(read, SearchBodyV1):
        if (read.lang or "en").casefold() != "en":
            yield "lang"
        if read.filter:
            yield "filter"
