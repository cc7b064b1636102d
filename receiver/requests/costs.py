"""The cost of a request in credits.

The rules are those of the interface specification (section Limits, Credit costs) and, where it says nothing, of the
service's public behaviour of August 2026.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from receiver.requests.formats import ChangeTrackingFormat, PdfParser, name_of
from receiver.requests.jobs import AgentRequest, BatchScrapeRequest, CrawlRequest, ExtractRequest
from receiver.requests.map import MapRequest
from receiver.requests.monitors import CrawlTarget, MonitorRequest, ScrapeTarget, SearchTarget, Target
from receiver.requests.pages import ContentRequest, FileOptions, PageRequest, ScrapeOptions
from receiver.requests.parse import ParseRequest
from receiver.requests.prices import (
    DETERMINISTIC_JSON,
    ENHANCED,
    EXTRA,
    EXTRA_FORMATS,
    JSON,
    LOCKDOWN,
    REUSED_JSON,
    SEARCH,
    URL_CHECK,
)
from receiver.requests.scrape import ScrapeRequest, ScrapeRequestV2
from receiver.requests.search import SearchRequest

Estimated = (
    ScrapeRequest
    | ScrapeRequestV2
    | ParseRequest
    | BatchScrapeRequest
    | CrawlRequest
    | MapRequest
    | SearchRequest
    | ExtractRequest
    | AgentRequest
    | MonitorRequest
)
"""Every request that costs credits."""

_Part = tuple[int, int | None, str]
"""The fewest and the most credits that a rule adds, and the rule. None stands for no upper bound."""

_CRAWL_LIMIT, _SEARCH_LIMIT = 10_000, 10
"""The service's limits where a request names none."""


@dataclass(frozen=True, slots=True)
class CreditEstimate:
    """An estimate of the credits that a request costs."""

    low: int
    """The fewest credits that the request costs if it succeeds."""
    high: int | None
    """The most credits that it costs; None if nothing bounds them, as for an extraction."""
    reasons: tuple[str, ...]
    """One sentence per rule that was applied."""


def estimate_credits(request: Estimated, *, pdf_pages: int = 0) -> CreditEstimate:
    """Estimate the cost of a request; of a monitor, the cost of one check.

    `pdf_pages` is the number of pages of all PDFs that are scraped, 0 without a PDF. The estimate leaves out what
    the organisation has switched on for all requests.
    """
    if pdf_pages < 0:
        raise ValueError("pdf_pages: 0 or more")
    parts = list(_parts(request, pdf_pages))
    bounds = [high for _, high, _ in parts if high is not None]
    return CreditEstimate(
        sum(low for low, _, _ in parts),
        sum(bounds) if len(bounds) == len(parts) else None,
        tuple(reason for _, _, reason in parts),
    )


def _parts(request: Estimated, pdf_pages: int) -> Iterator[_Part]:
    match request:
        case MapRequest():
            yield 1, 1, "a map: 1 credit"
        case ExtractRequest():
            yield 1, None, "an extraction is billed by tokens: 15 tokens are 1 credit"
        case AgentRequest():
            yield 1, request.max_credits, "an agent is billed by what it does, up to maxCredits"
        case SearchRequest():
            hits = (request.limit or _SEARCH_LIMIT) * len(request.sources or ("web",))
            yield _search(hits)
            if request.scrape_options is not None:
                yield from _pages(request.scrape_options, 0, hits, pdf_pages)
        case MonitorRequest():
            yield from _check_of(request, pdf_pages)
        case CrawlRequest():
            options = request.scrape_options or ScrapeOptions()
            yield from _pages(options, 1, request.limit, pdf_pages, unkept=request.zero_data_retention)
        case BatchScrapeRequest():
            count = len(request.urls)
            yield from _pages(request, count, count, pdf_pages, unkept=request.zero_data_retention)
        case _:
            yield from _pages(request, 1, 1, pdf_pages, unkept=request.zero_data_retention)


def _search(hits: int) -> _Part:
    return 0, SEARCH * -(-hits // 10), f"search: {SEARCH} credits for each 10 hits"


def _check_of(monitor: MonitorRequest, pdf_pages: int) -> Iterator[_Part]:
    for target in monitor.targets:
        yield from _target(target, pdf_pages)
    if monitor.judge_enabled or (monitor.goal and monitor.judge_enabled is None):
        yield 0, sum(_size(target)[1] for target in monitor.targets), "judge: 1 credit per changed page"


def _target(target: Target, pdf_pages: int) -> Iterator[_Part]:
    if isinstance(target, SearchTarget):
        yield _search(_size(target)[1])
    else:
        yield from _pages(target.scrape_options or ScrapeOptions(), *_size(target), pdf_pages)


def _size(target: Target) -> tuple[int, int]:
    """Return the fewest and the most pages of a check."""
    match target:
        case ScrapeTarget():
            return len(target.urls), len(target.urls)
        case CrawlTarget():
            limit = (target.crawl_options or {}).get("limit")
            return 1, limit if isinstance(limit, int) else _CRAWL_LIMIT
        case SearchTarget():
            return 0, len(target.queries) * (target.max_results or _SEARCH_LIMIT)


def _pages(
    options: ContentRequest, fewest: int, most: int, pdf_pages: int, *, unkept: bool | None = None
) -> Iterator[_Part]:
    """Yield the rules for `fewest` to `most` scraped pages."""
    for low, high, reason in _per_page(options, unkept=unkept is True):
        yield low * fewest, high * most, reason
    if pdf_pages and _parses_pdf(options):
        low, high = _further_pages(pdf_pages, fewest, most, _max_pages(options))
        yield low, high, "PDF: 1 credit per page of the file"
        if isinstance(options, FileOptions) and options.redact_pii:
            yield EXTRA * low, EXTRA * high, f"redactPII: {EXTRA} credits per page of the file"
    elif pdf_pages:
        yield 0, 0, "PDF that is not parsed: a flat 1 credit"


def _per_page(options: ContentRequest, *, unkept: bool) -> Iterator[tuple[int, int, str]]:
    """Yield the fewest and the most credits that each rule adds for one page, and the rule."""
    formats = _formats(options)
    lockdown = isinstance(options, ScrapeOptions) and options.lockdown is True
    if "deterministicJson" in formats:
        yield (
            REUSED_JSON,
            DETERMINISTIC_JSON,
            f"deterministicJson: {DETERMINISTIC_JSON} credits per page, {REUSED_JSON} where its program is reused",
        )
    elif "json" in formats:
        yield JSON, JSON, f"json: {JSON} credits per page"
    elif lockdown:
        yield LOCKDOWN, LOCKDOWN, f"lockdown: {LOCKDOWN} credits per page"
    else:
        yield 1, 1, "1 credit per page"
    for name in sorted(formats & EXTRA_FORMATS):
        yield EXTRA, EXTRA, f"{name}: {EXTRA} credits per page"
    if unkept and not lockdown:
        yield 1, 1, "zeroDataRetention: 1 credit per page"
    if isinstance(options, FileOptions) and options.redact_pii:
        yield EXTRA, EXTRA, f"redactPII: {EXTRA} credits per page"
    if isinstance(options, PageRequest):
        yield from _proxy(options.proxy)
    if options.threat_protection is not None and options.threat_protection.mode == "normal":
        yield URL_CHECK, URL_CHECK, f"threatProtection normal: {URL_CHECK} credits per URL checked"


def _proxy(name: str | None) -> Iterator[tuple[int, int, str]]:
    match name:
        case "enhanced" | "stealth":
            yield 0, ENHANCED - 1, f"proxy {name}: up to {ENHANCED} credits per page"
        case "auto":
            yield 0, ENHANCED - 1, f"proxy auto: {ENHANCED} credits where only the enhanced one succeeds"
        case None:
            yield 0, ENHANCED - 1, f"proxy left to the service: up to {ENHANCED} credits per page"


def _formats(options: ContentRequest) -> set[str]:
    """Return the names of the formats that are billed: comparing values is `json`, `query` is `question`."""
    if isinstance(options, ScrapeRequest):
        names: tuple[str, ...] = tuple(options.formats)
        tracking = [options.change_tracking_options]
    elif isinstance(options, FileOptions):
        names = options.format_names
        tracking = [one for one in options.formats or () if isinstance(one, ChangeTrackingFormat)]
    else:
        return set()
    extracted = any("json" in one.modes for one in tracking if one is not None)
    return {{"query": "question"}.get(name, name) for name in names} | ({"json"} if extracted else set())


def _further_pages(pdf_pages: int, fewest: int, most: int, max_pages: int | None) -> tuple[int, int]:
    """Return the fewest and the most pages of PDFs after the first page of each file.

    The fewest if there are many files, the most if there are few; `max_pages` of each file are read.
    """
    read = max_pages or pdf_pages
    low = min(pdf_pages - min(pdf_pages, max(fewest, 1)) + 1, read) - 1
    files = {max(1, min(most, count)) for count in (pdf_pages // read, -(-pdf_pages // read))}
    return low, max(min(pdf_pages, count * read) - count for count in files)


def _parses_pdf(options: ContentRequest) -> bool:
    if isinstance(options, ScrapeRequest):
        return options.parse_pdf
    parsers = options.parsers if isinstance(options, FileOptions) else None
    return parsers is None or "pdf" in map(name_of, parsers)


def _max_pages(options: ContentRequest) -> int | None:
    parsers = (options.parsers if isinstance(options, FileOptions) else None) or ()
    return next((one.max_pages for one in parsers if isinstance(one, PdfParser)), None)
