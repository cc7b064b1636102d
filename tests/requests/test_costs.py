"""The cost of requests, by the credit table of the interface specification."""

from typing import Any

import pytest

from receiver.requests import BatchScrapeRequest, CrawlRequest, ScrapeRequest, estimate_credits
from tests.cases import for_each

PAGE = "https://example.com/page"
NORMAL: dict[str, Any] = {"threat_protection": {"mode": "normal"}}


def scrape(**values: Any) -> ScrapeRequest:
    return ScrapeRequest.model_validate({"url": PAGE, **values})


def crawl(limit: int, **options: Any) -> CrawlRequest:
    return CrawlRequest.model_validate(
        {"url": PAGE, "limit": limit, "scrape_options": {"proxy": "basic", **options}}
    )


def batch(count: int, **options: Any) -> BatchScrapeRequest:
    return BatchScrapeRequest.model_validate({"urls": [PAGE] * count, "proxy": "basic", **options})


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
    ],
)
def test_credits_are_estimated_by_the_table(
    request_: ScrapeRequest | CrawlRequest | BatchScrapeRequest, pdf_pages: int, low: int, high: int
) -> None:
    """A page or PDF page costs 1, an unparsed PDF 1, the enhanced proxy up to 5, a checked URL 2."""
    estimate = estimate_credits(request_, pdf_pages=pdf_pages)

    assert (estimate.low, estimate.high) == (low, high)


def test_every_part_of_an_estimate_has_its_reason() -> None:
    """Reasons come in the order of the rules."""
    assert estimate_credits(scrape(proxy="auto", **NORMAL), pdf_pages=3).reasons == (
        "1 credit per page",
        "PDF: 1 credit per page of the file",
        "proxy auto: 5 credits where only the enhanced one succeeds",
        "threatProtection normal: 2 credits per URL checked",
    )
    assert "left to the service" in estimate_credits(CrawlRequest(url=PAGE)).reasons[1]
    assert estimate_credits(scrape(parse_pdf=False), pdf_pages=3).reasons[1].endswith("a flat 1 credit")


def test_a_negative_number_of_pdf_pages_is_refused() -> None:
    """It would lower the estimate."""
    with pytest.raises(ValueError, match="pdf_pages"):
        estimate_credits(scrape(), pdf_pages=-1)
