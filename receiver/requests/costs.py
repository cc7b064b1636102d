"""The cost of a request, by the service's table (interface specification, section Limits, Credit costs)."""

from collections.abc import Iterator
from dataclasses import dataclass

from receiver.requests.jobs import BatchScrapeRequest, CrawlRequest
from receiver.requests.pages import ScrapeOptions
from receiver.requests.scrape import ScrapeRequest

_ENHANCED = 5
"""The most credits of a page through the enhanced proxy, instead of 1."""
_CHECK = 2
"""Credits for checking one URL."""


@dataclass(frozen=True, slots=True)
class CreditEstimate:
    """An estimate of the credits that a request costs."""

    low: int
    """The fewest credits that the request costs if it succeeds."""
    high: int
    """The most credits that it costs."""
    reasons: tuple[str, ...]
    """One sentence per rule that was applied."""


def estimate_credits(
    request: ScrapeRequest | CrawlRequest | BatchScrapeRequest, *, pdf_pages: int = 0
) -> CreditEstimate:
    """Estimate the cost of a request. `pdf_pages` is the number of pages of all its PDFs, 0 without a PDF.

    The estimate leaves out what the service's table does not list, such as extraction by a language model, and what
    the organisation has switched on for all requests.
    """
    if pdf_pages < 0:
        raise ValueError("pdf_pages: 0 or more")
    parts = list(_parts(request, pdf_pages))
    return CreditEstimate(
        sum(low for low, _, _ in parts), sum(high for _, high, _ in parts), tuple(reason for _, _, reason in parts)
    )


def _parts(
    request: ScrapeRequest | CrawlRequest | BatchScrapeRequest, pdf_pages: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the fewest and the most credits that each rule adds, and the rule."""
    fewest, most = _urls(request)
    yield fewest, most, "1 credit per page"
    if pdf_pages and _parses_pdf(request):
        # The fewest if every page is a file of its own, the most if all pages are in one file.
        yield pdf_pages - min(pdf_pages, fewest), pdf_pages - 1, "PDF: 1 credit per page of the file"
    elif pdf_pages:
        yield 0, 0, "PDF that is not parsed: a flat 1 credit"
    match _options(request).proxy:
        case "enhanced":
            yield 0, most * (_ENHANCED - 1), f"proxy enhanced: up to {_ENHANCED} credits per page"
        case "auto":
            yield 0, most * (_ENHANCED - 1), f"proxy auto: {_ENHANCED} credits where only the enhanced one succeeds"
        case None:
            yield 0, most * (_ENHANCED - 1), f"proxy left to the service: up to {_ENHANCED} credits per page"
        case "basic":
            pass
    protection = _options(request).threat_protection
    if protection is not None and protection.mode == "normal":
        yield _CHECK * fewest, _CHECK * most, f"threatProtection normal: {_CHECK} credits per URL checked"


def _urls(request: ScrapeRequest | CrawlRequest | BatchScrapeRequest) -> tuple[int, int]:
    match request:
        case ScrapeRequest():
            return 1, 1
        case CrawlRequest():
            return 1, request.limit
        case BatchScrapeRequest():
            return len(request.urls), len(request.urls)


def _options(request: ScrapeRequest | CrawlRequest | BatchScrapeRequest) -> ScrapeRequest | ScrapeOptions:
    if isinstance(request, CrawlRequest):
        return request.scrape_options or ScrapeOptions()
    return request


def _parses_pdf(request: ScrapeRequest | CrawlRequest | BatchScrapeRequest) -> bool:
    options = _options(request)
    if isinstance(options, ScrapeRequest):
        return options.parse_pdf
    names = (parser if isinstance(parser, str) else parser["type"] for parser in options.parsers or ())
    return options.parsers is None or "pdf" in names
