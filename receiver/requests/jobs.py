"""What starts a job: crawls, batch scrapes, extractions and agents of version 2.

`url`, `limit`, `urls` and `webhook` are in the interface specification; the other fields in the service's OpenAPI
files and in what its own SDK sends.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from receiver.requests.base import Count, JsonSchema, Request, WebAddress
from receiver.requests.pages import ScrapeOptions
from receiver.requests.webhooks import AgentWebhook, BatchScrapeWebhook, CrawlWebhook, ExtractWebhook

Urls = Annotated[tuple[WebAddress, ...], Field(min_length=1)]


class CrawlRequest(Request):
    """A whole site, from one URL on."""

    url: WebAddress
    limit: Count = 10_000
    """The most pages; the account needs credits for them."""
    webhook: CrawlWebhook | None = None
    prompt: str | None = None
    """The service chooses the other options by it; see `final_crawler_options` in the answer."""
    include_paths: tuple[str, ...] | None = None
    exclude_paths: tuple[str, ...] | None = None
    max_discovery_depth: Annotated[StrictInt, Field(ge=0)] | None = None
    sitemap: Literal["skip", "include", "only"] | None = None
    ignore_query_parameters: StrictBool | None = None
    deduplicate_similar_urls: StrictBool | None = Field(None, alias="deduplicateSimilarURLs")
    crawl_entire_domain: StrictBool | None = None
    allow_external_links: StrictBool | None = None
    allow_subdomains: StrictBool | None = None
    delay: Annotated[float, Field(ge=0, strict=True)] | None = None
    """Seconds between two pages."""
    max_concurrency: Count | None = None
    regex_on_full_url: StrictBool | None = Field(None, alias="regexOnFullURL")
    zero_data_retention: StrictBool | None = None
    scrape_options: ScrapeOptions | None = None


class BatchScrapeRequest(ScrapeOptions):
    """A list of URLs; the options for pages stand beside it."""

    urls: Urls
    webhook: BatchScrapeWebhook | None = None
    append_to_id: str | None = None
    """A batch to add these URLs to."""
    ignore_invalid_urls: StrictBool = Field(True, alias="ignoreInvalidURLs")
    """Otherwise one URL that is none refuses the whole batch."""
    max_concurrency: Count | None = None
    zero_data_retention: StrictBool | None = None


class ExtractRequest(Request):
    """Structured data out of pages. The service has this operation in maintenance and prefers agents."""

    urls: Urls | None = None
    prompt: str | None = None
    schema_: JsonSchema | None = Field(None, alias="schema")
    system_prompt: str | None = None
    show_sources: StrictBool | None = None
    allow_external_links: StrictBool | None = None
    enable_web_search: StrictBool | None = None
    ignore_invalid_urls: StrictBool | None = Field(None, alias="ignoreInvalidURLs")
    scrape_options: ScrapeOptions | None = None
    webhook: ExtractWebhook | None = None


class AgentRequest(Request):
    """An agent that collects data by itself."""

    prompt: str
    urls: Urls | None = None
    schema_: JsonSchema | None = Field(None, alias="schema")
    max_credits: Count | None = None
    strict_constrain_to_urls: StrictBool | None = Field(None, alias="strictConstrainToURLs")
    """It looks at nothing but `urls`."""
    model: str | None = None
    webhook: AgentWebhook | None = None
