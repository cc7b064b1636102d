"""Requests that start jobs: crawls, batch scrapes, extractions and agents of version 2.

`url`, `limit`, `urls` and `webhook` come from the interface specification, the other fields from the service's
OpenAPI files, from the requests of its own SDK, and from its public behaviour.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, StrictInt, model_validator

from receiver.requests.base import Count, JsonSchema, Many, Request, Uuid, WebAddress
from receiver.requests.options import AuditMetadata, Prompt, ThreatProtection
from receiver.requests.pages import JobScrapeOptions, ScrapeOptions, require_markdown
from receiver.requests.webhooks import AgentWebhook, BatchScrapeWebhook, CrawlWebhook, ExtractWebhook

Urls = Annotated[Many[WebAddress], Field(min_length=1)]

_NEVER_VALID = ("nothing to repeat", "multiple repeat", "unterminated", "unbalanced", "missing ), unterminated")
"""What Python says of expressions that are wrong in every dialect. The service's dialect is another one."""


def _require_expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as exc:
        if exc.msg.startswith(_NEVER_VALID):
            raise ValueError(f"a regular expression, not a pattern with wildcards: {exc.msg}") from None
    return value


PathExpression = Annotated[str, AfterValidator(_require_expression)]


class CrawlFields(Request):
    """What a crawl has in both versions: where it begins, which pages it takes, how fast it goes."""

    url: WebAddress
    """Absolute URL where the crawl begins."""
    limit: Count = 10_000
    """The most pages to scrape; the account needs credits for them."""
    webhook: CrawlWebhook | None = None
    """Where the crawl's events go."""
    include_paths: Many[PathExpression] | None = None
    """Regular expressions. Only URLs whose path matches one are scraped."""
    exclude_paths: Many[PathExpression] | None = None
    """Regular expressions. URLs whose path matches one are not scraped."""
    max_discovery_depth: Annotated[StrictInt, Field(ge=0)] | None = None
    """How many links away from `url` pages are found; 0 is `url` and the sitemap."""
    ignore_query_parameters: StrictBool | None = None
    """Whether URLs that differ only in their query count as one page."""
    deduplicate_similar_urls: Annotated[StrictBool | None, Field(alias="deduplicateSimilarURLs")] = None
    """Whether similar URLs, such as those with and without `www`, count as one page."""
    crawl_entire_domain: StrictBool | None = None
    """Whether pages beside and above `url` are followed, not only those below it."""
    allow_external_links: StrictBool | None = None
    """Whether links to other sites are followed."""
    allow_subdomains: StrictBool | None = None
    """Whether links to subdomains of the site are followed."""
    ignore_robots_txt: StrictBool | None = None
    """Whether pages are scraped that robots.txt forbids. The account has to have this feature."""
    delay: Annotated[float, Field(gt=0, le=60, strict=True)] | None = None
    """Seconds between two pages, above 0 and at most 60. With it, pages are scraped one by one."""
    max_concurrency: Count | None = None
    """The most pages scraped at one time, within the account's own limit."""
    regex_on_full_url: Annotated[StrictBool | None, Field(alias="regexOnFullURL")] = None
    """Whether the path expressions are matched against the whole URL."""
    zero_data_retention: StrictBool | None = None
    """Whether the service keeps nothing of this crawl. The account has to have this feature."""


class CrawlRequest(CrawlFields):
    """A crawl of a whole site, from one URL on."""

    prompt: Prompt | None = None
    """What to crawl, in plain words, at most 10,000 characters. The service makes options of
    it: `final_crawler_options` in its answer."""
    sitemap: Literal["skip", "include", "only"] | None = None
    """Whether the site's sitemap is left out, used beside links, or used alone."""
    robots_user_agent: str | None = None
    """The name that the rules of robots.txt are read for, in place of the service's own."""
    scrape_options: JobScrapeOptions | None = None
    """How each page is scraped."""


class BatchFields(Request):
    """What a batch scrape has in both versions, beside the options of its pages."""

    urls: Urls
    """Absolute URLs of the pages, at least one."""
    webhook: BatchScrapeWebhook | None = None
    """Where the batch's events go."""
    append_to_id: Uuid | None = None
    """UUID of a batch that these URLs are added to."""
    ignore_invalid_urls: Annotated[StrictBool, Field(alias="ignoreInvalidURLs")] = True
    """Whether invalid URLs are left out. Otherwise one of them refuses the whole batch."""
    max_concurrency: Count | None = None
    """The most pages scraped at one time, within the account's own limit."""
    zero_data_retention: StrictBool | None = None
    """Whether the service keeps nothing of this batch. The account has to have this feature."""


class BatchScrapeRequest(ScrapeOptions, BatchFields):
    """A scrape of a list of URLs."""

    _has_markdown = model_validator(mode="after")(require_markdown)


class ExtractAgent(Request):
    """An agent that helps an extraction to reach its pages."""

    model: str
    """Name of the agent's model, such as `FIRE-1`."""


class ExtractRequest(Request):
    """An extraction of structured data from pages. The service only maintains this operation and prefers agents."""

    urls: Annotated[Urls, Field(max_length=10)] | None = None
    """Absolute URLs of the pages to look at, at most 10; one that ends in `/*` stands for all below it."""
    prompt: Prompt | None = None
    """What to extract, in plain words, at most 10,000 characters. Without `urls` it is required."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """The form of the result."""
    system_prompt: Prompt | None = None
    """Instructions that stand before the prompt, at most 10,000 characters."""
    show_sources: StrictBool | None = None
    """Whether the result says at which URLs each value was found."""
    allow_external_links: StrictBool | None = None
    """Whether links to other sites are followed."""
    enable_web_search: StrictBool | None = None
    """Whether a web search may find further pages."""
    ignore_invalid_urls: Annotated[StrictBool | None, Field(alias="ignoreInvalidURLs")] = None
    """Whether invalid URLs are left out. Otherwise one of them refuses the request."""
    scrape_options: JobScrapeOptions | None = None
    """How each page is scraped."""
    agent: ExtractAgent | None = None
    """An agent that helps to reach the pages; none without it."""
    webhook: ExtractWebhook | None = None
    """Where the job's events go."""
    threat_protection: ThreatProtection | None = None
    """Checks of URLs, in place of those of the organisation."""

    @model_validator(mode="after")
    def _says_where_or_what(self) -> Self:
        if self.urls is None and not self.prompt:
            raise ValueError("give urls, prompt, or both")
        return self


class AgentRequest(Request):
    """An agent that collects data by itself."""

    prompt: Annotated[Prompt, Field(min_length=1)]
    """What to find, in plain words, 1 to 10,000 characters."""
    urls: Urls | None = None
    """Absolute URLs to begin at."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """The form of the result."""
    max_credits: Count | None = None
    """The most credits that the job may cost."""
    strict_constrain_to_urls: Annotated[StrictBool | None, Field(alias="strictConstrainToURLs")] = None
    """Whether the agent looks only at `urls`."""
    model: Literal["spark-1-pro", "spark-1-mini", "spark-2"] | None = None
    """Name of the agent's model; the service chooses one without it."""
    thread_id: Uuid | None = None
    """UUID of a conversation that this job continues; the first answer of that conversation names it."""
    webhook: AgentWebhook | None = None
    """Where the job's events go."""
    threat_protection: ThreatProtection | None = None
    """Checks of URLs, in place of those of the organisation."""
    audit_metadata: AuditMetadata | None = None
    """Who asked, for the service's audit log."""
