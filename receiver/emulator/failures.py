"""Why a call is refused or a page could not be scraped, with the codes and statuses that the service answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from receiver.errors import ReceiverError

Json = dict[str, Any]

STATUS_OF_CODE = {
    "SCRAPE_DNS_RESOLUTION_ERROR": 200,
    "SCRAPE_TIMEOUT": 408,
    "CONCURRENCY_LIMIT": 429,
    "SCRAPE_NO_CACHED_DATA": 404,
    "SCRAPE_LOCKDOWN_CACHE_MISS": 404,
    "SCRAPE_ACTIONS_NOT_SUPPORTED": 400,
    "unsafe_domain_blocked": 403,
    "SCRAPE_SITE_ERROR": 500,
    "SCRAPE_SSL_ERROR": 500,
    "SCRAPE_UNSUPPORTED_FILE_ERROR": 500,
    "SCRAPE_ACTION_ERROR": 500,
    "SCRAPE_PDF_OCR_REQUIRED": 500,
    "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR": 500,
    "SCRAPE_ALL_ENGINES_FAILED": 500,
    "MAP_TIMEOUT": 408,
    "CRAWL_DENIAL": 403,
    "SCRAPE_RACED_REDIRECT_ERROR": 409,
    "UNKNOWN_ERROR": 500,
}
"""The HTTP status of each code in the answer to a scrape (the service's public behaviour of August 2026)."""
RETRY_SECONDS = 5
"""When to come again if all places are taken: a guess, as no one knows when a place will be free."""


class ScrapeFailed(ReceiverError):
    """A page could not be scraped. The text is for the caller of the API; `code` is the service's code.

    `credits` is what the attempt costs: nothing, except for what was checked before it failed.
    """

    def __init__(self, code: str, text: str, *, credits: int = 0) -> None:  # noqa: A002 - the service's word
        super().__init__(text)
        self.code = code
        self.credits = credits

    @property
    def status(self) -> int:
        """The HTTP status of the answer to a scrape that failed like this."""
        return STATUS_OF_CODE[self.code]


class TooManyAtOnce(ScrapeFailed):
    """The plan's limit of pages at one time left no place for as long as the scrape could wait."""

    def __init__(self, most: int) -> None:
        text = f"Concurrency limit exceeded: the plan has {most} pages at one time. Retry after {RETRY_SECONDS}s"
        super().__init__("CONCURRENCY_LIMIT", text)

    def refusal(self) -> "CallRefused":
        """Return the answer to a call, which says when to come again."""
        return CallRefused(429, str(self), code=self.code, headers={"Retry-After": str(RETRY_SECONDS)})


class CallRefused(ReceiverError):
    """The call is refused with the service's error body: `{success: false, error, code?, details?}`.

    `hints` are sentences for agents: what they can do.
    """

    def __init__(
        self,
        status: int,
        error: str,
        *,
        code: str | None = None,
        details: list[Json] | None = None,
        headers: Mapping[str, str] | None = None,
        hints: Sequence[str] = (),
    ) -> None:
        super().__init__(error)
        self.status, self.error, self.code, self.details = status, error, code, details
        self.hints = tuple(hints)
        self.headers = dict(headers or {})
