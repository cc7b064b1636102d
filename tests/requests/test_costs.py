"""The cost of requests, by the credit table of the interface specification."""

from typing import Any, get_args

import pytest

from receiver import requests
from receiver.requests import (
    AgentRequest,
    BatchScrapeRequest,
    CrawlRequest,
    ExtractRequest,
    MapRequest,
    MonitorRequest,
    ParseRequest,
    ScrapeOptions,
    ScrapeRequest,
    ScrapeRequestV2,
    SearchRequest,
    estimate_credits,
)
from receiver.requests.costs import Estimated
from tests.cases import for_each

PAGE = "https://example.com/page"
JSON: dict[str, Any] = {"type": "json", "prompt": "prices"}
BASIC = ScrapeOptions(proxy="basic")
NORMAL: dict[str, Any] = {"threat_protection": {"mode": "normal"}}


def scrape(**values: Any) -> ScrapeRequest:
    return ScrapeRequest.model_validate({"url": PAGE, **values})


def crawl(limit: int, **options: Any) -> CrawlRequest:
    return CrawlRequest.model_validate(
        {"url": PAGE, "limit": limit, "scrape_options": {"proxy": "basic", **options}}
    )


def batch(count: int, **options: Any) -> BatchScrapeRequest:
    return BatchScrapeRequest.model_validate({"urls": [PAGE] * count, "proxy": "basic", **options})


def scrape2(**values: Any) -> ScrapeRequestV2:
    return ScrapeRequestV2.model_validate({"url": PAGE, "proxy": "basic", **values})


def monitor(target: dict[str, Any], **values: Any) -> MonitorRequest:
    return MonitorRequest.model_validate(
        {"name": "m", "schedule": {"text": "hourly"}, "targets": [target], **values}
    )


@for_each(
    ("request_", "pdf_pages", "low", "high"),
    [
        (scrape(), 0, 1, 1),
        (scrape(), 12, 12, 12),
        (scrape(parse_pdf=False), 12, 1, 1),
        (scrape(proxy="enhanced"), 0, 1, 5),
        (scrape(proxy="auto"), 0, 1, 5),
        (scrape(proxy="auto"), 12, 12, 16),
        (scrape(**NORMAL), 0, 3, 3),
        (scrape(threat_protection={"mode": "off"}), 0, 1, 1),
        (scrape(proxy="enhanced", **NORMAL), 12, 14, 18),
        (crawl(100), 0, 1, 100),
        (crawl(100), 30, 30, 129),
        (crawl(100, **NORMAL), 0, 3, 300),
        (crawl(100, proxy="auto"), 0, 1, 500),
        (batch(10), 0, 10, 10),
        (batch(10), 30, 30, 39),
        (batch(10), 4, 10, 13),
        (batch(10, parsers=[]), 30, 10, 10),
        (batch(10, parsers=[{"type": "pdf"}]), 30, 30, 39),
        (CrawlRequest(url=PAGE, limit=10), 0, 1, 50),
        # pages of a file that are not read cost nothing
        (scrape2(parsers=[{"type": "pdf", "maxPages": 5}]), 30, 5, 5),
        (scrape2(parsers=[{"type": "pdf", "maxPages": 50}]), 30, 30, 30),
        (batch(10, parsers=[{"type": "pdf", "maxPages": 10}]), 30, 19, 37),
        (batch(2, parsers=[{"type": "pdf", "maxPages": 1}]), 30, 2, 2),
        (crawl(100, parsers=[{"type": "pdf", "maxPages": 10}]), 25, 10, 122),
        # what formats and options add
        (scrape(formats=["json"], json_options={"prompt": "p"}), 0, 5, 5),
        (scrape(formats=["markdown", "changeTracking"], change_tracking_options={"modes": ["json"]}), 0, 5, 5),
        (scrape(formats=["markdown", "changeTracking"], change_tracking_options={"modes": ["git-diff"]}), 0, 1, 1),
        (scrape(zero_data_retention=True), 0, 2, 2),
        (scrape(formats=["json"], json_options={}, zero_data_retention=True, **NORMAL), 3, 10, 10),
        (scrape2(formats=[JSON]), 0, 5, 5),
        (scrape2(formats=[JSON], lockdown=True), 0, 5, 5),
        (scrape2(lockdown=True, zero_data_retention=True), 0, 5, 5),
        (scrape2(formats=["markdown", {"type": "changeTracking", "modes": ["json"]}]), 0, 5, 5),
        (scrape2(formats=[{"type": "deterministicJson", "prompt": "p"}]), 0, 3, 10),
        (scrape2(formats=["audio", "video", {"type": "highlights", "query": "q"}]), 0, 13, 13),
        (scrape2(formats=[{"type": "question", "question": "q"}, {"type": "query", "prompt": "q"}]), 0, 5, 5),
        (scrape2(redact_pii=True), 3, 15, 15),
        (scrape2(proxy="stealth"), 0, 1, 5),
        (crawl(10, formats=[JSON]), 0, 5, 50),
        (batch(10, formats=[JSON], zero_data_retention=True), 0, 60, 60),
        (CrawlRequest(url=PAGE, limit=3, scrape_options=BASIC, zero_data_retention=True), 0, 2, 6),
        # other requests
        (MapRequest(url=PAGE, limit=100), 0, 1, 1),
        (ParseRequest(file=b"%PDF", filename="a.pdf"), 7, 7, 7),
        (ParseRequest(file=b"<p>", filename="a.html", formats=[JSON], zero_data_retention=True), 0, 6, 6),
        (SearchRequest(query="q"), 0, 0, 2),
        (SearchRequest(query="q", limit=25, sources=["web", "news"]), 0, 0, 10),
        (SearchRequest(query="q", limit=15, scrape_options=BASIC), 0, 0, 19),
        (ExtractRequest(prompt="p"), 0, 1, None),
        (AgentRequest(prompt="p"), 0, 1, None),
        (AgentRequest(prompt="p", max_credits=50), 0, 1, 50),
        (monitor({"type": "scrape", "urls": [PAGE] * 3, "scrapeOptions": {"proxy": "basic"}}), 0, 3, 3),
        (monitor({"type": "scrape", "urls": [PAGE], "scrapeOptions": {"formats": [JSON]}}), 0, 5, 9),
        (monitor({"type": "crawl", "url": PAGE, "crawlOptions": {"limit": 20}}), 0, 1, 100),
        (monitor({"type": "crawl", "url": PAGE, "scrapeOptions": {"proxy": "basic"}}), 0, 1, 10_000),
        (monitor({"type": "search", "queries": ["a", "b"], "maxResults": 20}, goal="g"), 0, 0, 48),
    ],
)
def test_credits_are_estimated_by_the_table(
    request_: Estimated, pdf_pages: int, low: int, high: int | None
) -> None:
    """A page or PDF page costs 1, an unparsed PDF 1, the enhanced proxy up to 5, a checked URL 2, and so on."""
    estimate = estimate_credits(request_, pdf_pages=pdf_pages)

    assert (estimate.low, estimate.high) == (low, high)


def test_every_part_of_an_estimate_has_its_reason() -> None:
    """Reasons come in the order of the rules."""
    assert estimate_credits(scrape(proxy="auto", **NORMAL), pdf_pages=3).reasons == (
        "1 credit per page",
        "proxy auto: 5 credits where only the enhanced one succeeds",
        "threatProtection normal: 2 credits per URL checked",
        "PDF: 1 credit per page of the file",
    )
    assert "left to the service" in estimate_credits(CrawlRequest(url=PAGE)).reasons[1]
    assert estimate_credits(scrape(parse_pdf=False), pdf_pages=3).reasons[1].endswith("a flat 1 credit")


def test_a_negative_number_of_pdf_pages_is_refused() -> None:
    """It would lower the estimate."""
    with pytest.raises(ValueError, match="pdf_pages"):
        estimate_credits(scrape(), pdf_pages=-1)


def test_every_request_that_costs_credits_has_an_estimate() -> None:
    """These are all requests with an operation of their own, apart from changes of monitors."""
    operations = {
        name for name in requests.__all__ if "Request" in name and name not in ("Request", "MonitorChanges")
    }

    assert {one.__name__ for one in get_args(Estimated)} == operations
