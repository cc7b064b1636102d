"""The bodies of crawls and batch scrapes, in both versions: the lenient face of the requests."""

from typing import Annotated

import re2
from pydantic import AfterValidator, Field, StrictBool, StrictInt

from receiver.requests.base import Many
from receiver.requests.jobs import BatchFields, CrawlFields, CrawlRequest
from receiver.service.emulator.wire.scrape_bodies import (
    PageOptionsBody,
    PageOptionsBodyV1,
    SenderFields,
)
from receiver.service.emulator.wire.urls import WebUrl
from receiver.service.emulator.wire.webhooks import WebhookBody

MAX_PATTERN = 2_000
"""Characters of an expression for paths."""
_QUIET = re2.Options()
_QUIET.log_errors = False


def _require_pattern(value: str) -> str:
    """Refuse what RE2 does not know: it takes linear time, whatever the pattern."""
    try:
        re2.compile(value, _QUIET)
    except re2.error as exc:
        why = exc.args[0].decode(errors="replace") if exc.args and isinstance(exc.args[0], bytes) else "unknown"
        raise ValueError(f"Invalid regular expression {value[:100]!r}: {why[:200]}") from None
    return value


PathPattern = Annotated[str, Field(max_length=MAX_PATTERN), AfterValidator(_require_pattern)]
PathPatterns = Annotated[Many[PathPattern], Field(max_length=1_000)]


class CrawlBody(CrawlRequest, SenderFields):
    """The body of POST /v2/crawl."""

    url: WebUrl
    webhook: WebhookBody | None = None
    include_paths: PathPatterns | None = None
    exclude_paths: PathPatterns | None = None
    scrape_options: PageOptionsBody | None = None


class CrawlBodyV1(CrawlFields, SenderFields):
    """The body of POST /v1/crawl."""

    url: WebUrl
    webhook: WebhookBody | None = None
    include_paths: PathPatterns | None = None
    exclude_paths: PathPatterns | None = None
    scrape_options: PageOptionsBodyV1 | None = None
    """How each page is scraped."""
    max_depth: Annotated[StrictInt, Field(ge=0)] = 10
    """The most path segments below those of `url`."""
    ignore_sitemap: StrictBool = False
    """Whether the sitemap is left out."""
    allow_backward_links: StrictBool = False
    """The older name of `crawl_entire_domain`."""


class BatchBody(PageOptionsBody, BatchFields):
    """The body of POST /v2/batch/scrape. Its URLs are checked one by one."""

    urls: Annotated[Many[str], Field(min_length=1)]
    webhook: WebhookBody | None = None


class BatchBodyV1(PageOptionsBodyV1, BatchFields):
    """The body of POST /v1/batch/scrape. Its URLs are checked one by one."""

    urls: Annotated[Many[str], Field(min_length=1)]
    webhook: WebhookBody | None = None
    ignore_invalid_urls: Annotated[StrictBool, Field(alias="ignoreInvalidURLs")] = False
    zero_data_retention: StrictBool = False
