"""Requests that start jobs: crawls, batch scrapes, extractions and agents of version 2.

`url`, `limit`, `urls` and `webhook` come from the interface specification, the other fields from the service's
OpenAPI files and from the requests of its own SDK.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from receiver.requests.base import Count, JsonSchema, Request, WebAddress
from receiver.requests.pages import ScrapeOptions
from receiver.requests.webhooks import AgentWebhook, BatchScrapeWebhook, CrawlWebhook, ExtractWebhook

Urls = Annotated[tuple[WebAddress, ...], Field(min_length=1)]


class CrawlRequest(Request):
    """A crawl of a whole site, from one URL on."""

    url: WebAddress
    """Absolute URL where the crawl begins."""
    limit: Count = 10_000
    """The most pages to scrape; the account needs credits for them."""
    webhook: CrawlWebhook | None = None
    """Where the crawl's events go."""
    prompt: str | None = None
    """What to crawl, in plain words. The service makes options of it: `final_crawler_options` in its answer."""
    include_paths: tuple[str, ...] | None = None
    """Regular expressions. Only URLs whose path matches one are scraped."""
    exclude_paths: tuple[str, ...] | None = None
    """Regular expressions. URLs whose path matches one are not scraped."""
    max_discovery_depth: Annotated[StrictInt, Field(ge=0)] | None = None
    """How many links away from `url` pages are found; 0 is `url` and the sitemap."""
    sitemap: Literal["skip", "include", "only"] | None = None
    """Whether the site's sitemap is left out, used beside links, or used alone."""
    ignore_query_parameters: StrictBool | None = None
    """Whether URLs that differ only in their query count as one page."""
    deduplicate_similar_urls: StrictBool | None = Field(None, alias="deduplicateSimilarURLs")
    """Whether similar URLs, such as those with and without `www`, count as one page."""
    crawl_entire_domain: StrictBool | None = None
    """Whether pages beside and above `url` are followed, not only those below it."""
    allow_external_links: StrictBool | None = None
    """Whether links to other sites are followed."""
    allow_subdomains: StrictBool | None = None
    """Whether links to subdomains of the site are followed."""
    delay: Annotated[float, Field(ge=0, strict=True)] | None = None
    """Seconds between two pages."""
    max_concurrency: Count | None = None
    """The most pages scraped at one time, within the account's own limit."""
    regex_on_full_url: StrictBool | None = Field(None, alias="regexOnFullURL")
    """Whether the path expressions are matched against the whole URL."""
    zero_data_retention: StrictBool | None = None
    """Whether the service keeps nothing of this crawl. The account has to have this feature."""
    scrape_options: ScrapeOptions | None = None
    """How each page is scraped."""


class BatchScrapeRequest(ScrapeOptions):
    """A scrape of a list of URLs."""

    urls: Urls
    """Absolute URLs of the pages, at least one."""
    webhook: BatchScrapeWebhook | None = None
    """Where the batch's events go."""
    append_to_id: str | None = None
    """UUID of a batch that these URLs are added to."""
    ignore_invalid_urls: StrictBool = Field(True, alias="ignoreInvalidURLs")
    """Whether invalid URLs are left out. Otherwise one of them refuses the whole batch."""
    max_concurrency: Count | None = None
    """The most pages scraped at one time, within the account's own limit."""
    zero_data_retention: StrictBool | None = None
    """Whether the service keeps nothing of this batch. The account has to have this feature."""


class ExtractRequest(Request):
    """An extraction of structured data from pages. The service only maintains this operation and prefers agents."""

    urls: Urls | None = None
    """Absolute URLs of the pages to look at."""
    prompt: str | None = None
    """What to extract, in plain words."""
    schema_: JsonSchema | None = Field(None, alias="schema")
    """The form of the result."""
    system_prompt: str | None = None
    """Instructions that stand before the prompt."""
    show_sources: StrictBool | None = None
    """Whether the result says at which URLs each value was found."""
    allow_external_links: StrictBool | None = None
    """Whether links to other sites are followed."""
    enable_web_search: StrictBool | None = None
    """Whether a web search may find further pages."""
    ignore_invalid_urls: StrictBool | None = Field(None, alias="ignoreInvalidURLs")
    """Whether invalid URLs are left out. Otherwise one of them refuses the request."""
    scrape_options: ScrapeOptions | None = None
    """How each page is scraped."""
    webhook: ExtractWebhook | None = None
    """Where the job's events go."""


class AgentRequest(Request):
    """An agent that collects data by itself."""

    prompt: str
    """What to find, in plain words."""
    urls: Urls | None = None
    """Absolute URLs to begin at."""
    schema_: JsonSchema | None = Field(None, alias="schema")
    """The form of the result."""
    max_credits: Count | None = None
    """The most credits that the job may cost."""
    strict_constrain_to_urls: StrictBool | None = Field(None, alias="strictConstrainToURLs")
    """Whether the agent looks only at `urls`."""
    model: str | None = None
    """Name of the agent's model; the service chooses one without it."""
    webhook: AgentWebhook | None = None
    """Where the job's events go."""
