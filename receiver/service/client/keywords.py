"""The keyword options of the clients: the fields of the request classes, which explain them.

Type checkers need them written out. A test compares both.
"""

from typing import Literal, TypedDict

from pydantic import StrictBool, StrictInt

from receiver.requests.actions import Action
from receiver.requests.base import Count, HttpHeaders, JsonSchema, Many, Milliseconds, Uuid
from receiver.requests.formats import Format, Parser
from receiver.requests.jobs import ExtractAgent, PathExpression, Urls
from receiver.requests.monitors import Name, Notification, Targets
from receiver.requests.options import (
    AuditMetadata,
    ChangeTrackingOptions,
    HostNames,
    JsonOptions,
    Location,
    Profile,
    Prompt,
    ThreatProtection,
)
from receiver.requests.pages import JobScrapeOptions, Proxy, ScrapeOptions
from receiver.requests.schedules import Schedule
from receiver.requests.scrape import ScrapeFormat
from receiver.requests.webhooks import MonitorWebhook


class ScrapeKeywords(TypedDict, total=False):
    """Options of a scrape, of either version: the fields of ScrapeRequest and ScrapeRequestV2, beside `url`."""

    exclude_tags: Many[str] | None
    include_tags: Many[str] | None
    only_main_content: StrictBool | None
    remove_base64_images: StrictBool | None
    threat_protection: ThreatProtection | None
    timeout: StrictInt | None
    actions: Many[Action] | None
    block_ads: StrictBool | None
    headers: HttpHeaders | None
    location: Location | None
    max_age: Milliseconds | None
    mobile: StrictBool | None
    proxy: Proxy | None
    skip_tls_verification: StrictBool | None
    store_in_cache: StrictBool | None
    wait_for: StrictInt | None
    zero_data_retention: StrictBool | None
    formats: Many[ScrapeFormat | Format] | None
    change_tracking_options: ChangeTrackingOptions | None
    json_options: JsonOptions | None
    parse_pdf: StrictBool
    audit_metadata: AuditMetadata | None
    only_clean_content: StrictBool | None
    parsers: Many[Parser] | None
    redact_pii: StrictBool | None
    lockdown: StrictBool | None
    min_age: Milliseconds | None
    profile: Profile | None


class ParseKeywords(TypedDict, total=False):
    """Options of reading a file: the fields of ParseRequest, beside `file` and `filename`."""

    exclude_tags: Many[str] | None
    include_tags: Many[str] | None
    only_main_content: StrictBool | None
    remove_base64_images: StrictBool | None
    threat_protection: ThreatProtection | None
    timeout: StrictInt | None
    audit_metadata: AuditMetadata | None
    formats: Many[Format] | None
    only_clean_content: StrictBool | None
    parsers: Many[Parser] | None
    redact_pii: StrictBool | None
    content_type: str | None
    zero_data_retention: StrictBool | None


class MapKeywords(TypedDict, total=False):
    """Options of a map: the fields of MapRequest, beside `url`."""

    search: str | None
    sitemap: Literal["skip", "include", "only"] | None
    include_subdomains: StrictBool | None
    ignore_query_parameters: StrictBool | None
    filter_by_path: StrictBool | None
    limit: StrictInt | None
    timeout: Count | None
    ignore_cache: StrictBool | None
    location: Location | None
    headers: HttpHeaders | None
    threat_protection: ThreatProtection | None
    audit_metadata: AuditMetadata | None


class SearchKeywords(TypedDict, total=False):
    """Options of a search: the fields of SearchRequest, beside `query`."""

    limit: StrictInt | None
    sources: Many[Literal["web", "news", "images"]] | None
    categories: Many[Literal["github", "research", "pdf", "developer", "gov"]] | None
    include_domains: HostNames | None
    exclude_domains: HostNames | None
    tbs: str | None
    location: str | None
    country: str | None
    timeout: Count | None
    ignore_invalid_urls: StrictBool | None
    threat_protection: ThreatProtection | None
    scrape_options: ScrapeOptions | None


class CrawlKeywords(TypedDict, total=False):
    """Options of a crawl: the fields of CrawlRequest, beside `url` and `webhook`."""

    limit: Count
    prompt: Prompt | None
    include_paths: Many[PathExpression] | None
    exclude_paths: Many[PathExpression] | None
    max_discovery_depth: StrictInt | None
    sitemap: Literal["skip", "include", "only"] | None
    ignore_query_parameters: StrictBool | None
    deduplicate_similar_urls: StrictBool | None
    crawl_entire_domain: StrictBool | None
    allow_external_links: StrictBool | None
    allow_subdomains: StrictBool | None
    ignore_robots_txt: StrictBool | None
    robots_user_agent: str | None
    delay: float | None
    max_concurrency: Count | None
    regex_on_full_url: StrictBool | None
    zero_data_retention: StrictBool | None
    scrape_options: JobScrapeOptions | None


class BatchScrapeKeywords(TypedDict, total=False):
    """Options of a batch scrape: the fields of BatchScrapeRequest, beside `urls` and `webhook`."""

    exclude_tags: Many[str] | None
    include_tags: Many[str] | None
    only_main_content: StrictBool | None
    remove_base64_images: StrictBool | None
    threat_protection: ThreatProtection | None
    timeout: StrictInt | None
    audit_metadata: AuditMetadata | None
    formats: Many[Format] | None
    only_clean_content: StrictBool | None
    parsers: Many[Parser] | None
    redact_pii: StrictBool | None
    actions: Many[Action] | None
    block_ads: StrictBool | None
    headers: HttpHeaders | None
    location: Location | None
    max_age: Milliseconds | None
    mobile: StrictBool | None
    proxy: Proxy | None
    skip_tls_verification: StrictBool | None
    store_in_cache: StrictBool | None
    wait_for: StrictInt | None
    lockdown: StrictBool | None
    min_age: Milliseconds | None
    profile: Profile | None
    append_to_id: Uuid | None
    ignore_invalid_urls: StrictBool
    max_concurrency: Count | None
    zero_data_retention: StrictBool | None


class ExtractKeywords(TypedDict, total=False):
    """Options of an extraction: the fields of ExtractRequest, beside `urls` and `webhook`."""

    prompt: Prompt | None
    schema_: JsonSchema | None
    system_prompt: Prompt | None
    show_sources: StrictBool | None
    allow_external_links: StrictBool | None
    enable_web_search: StrictBool | None
    ignore_invalid_urls: StrictBool | None
    scrape_options: JobScrapeOptions | None
    agent: ExtractAgent | None
    threat_protection: ThreatProtection | None


class AgentKeywords(TypedDict, total=False):
    """Options of an agent: the fields of AgentRequest, beside `prompt` and `webhook`."""

    urls: Urls | None
    schema_: JsonSchema | None
    max_credits: Count | None
    strict_constrain_to_urls: StrictBool | None
    model: Literal["spark-1-pro", "spark-1-mini", "spark-2"] | None
    thread_id: Uuid | None
    threat_protection: ThreatProtection | None
    audit_metadata: AuditMetadata | None


class MonitorKeywords(TypedDict, total=False):
    """Options of a new monitor: the fields of MonitorRequest, beside `name`."""

    schedule: Schedule
    targets: Targets
    webhook: MonitorWebhook | None
    notification: Notification | None
    goal: str | None
    judge_enabled: StrictBool | None
    retention_days: StrictInt | None


class MonitorChangeKeywords(TypedDict, total=False):
    """Options of a change of a monitor: the fields of MonitorChanges."""

    name: Name | None
    schedule: Schedule | None
    targets: Targets | None
    webhook: MonitorWebhook | None
    notification: Notification | None
    goal: str | None
    judge_enabled: StrictBool | None
    retention_days: StrictInt | None
    status: Literal["active", "paused"] | None
