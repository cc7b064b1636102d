"""The pages that become files, and the content of the files."""

import base64
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.pages import router
from tests.handlers.deliveries import fresh_output, handle, page_of, payload, wanted_by
from tests.handlers.page_files import PRICES, body_of, files_in, header_of


def test_a_crawled_page_becomes_a_markdown_file(output: Path) -> None:
    """Its front matter says what it is and where it came from; the rest is the Markdown as it came."""
    event = payload("crawl.page")

    handle(router, event)

    path = output / "pages/example.com/prices.md"
    assert files_in(output) == ["pages/example.com/prices.md"]
    assert body_of(path) == event["data"][0]["markdown"]
    assert header_of(path) == {
        "title": "Service prices",
        "description": "Service prices at Harbour Cycles, a small repair shop.",
        "language": "en",
        "source_url": PRICES,
        "url": PRICES,
        "status_code": 200,
        "content_type": "text/html; charset=utf-8",
        "received_at": "2026-08-04T12:00:00.000000+00:00",
        "event": "crawl.page",
        "job_id": "019f2c10-0001-7a00-8b00-000000001eef",
        "scrape_id": "019f2c10-000b-7a00-8b00-000000015445",
        "delivery": "3c6ef362-0002-4c3d-9e2f-000000033232",
    }


def test_a_batch_scraped_page_becomes_one_too(output: Path) -> None:
    """It also says how old a cached page is."""
    handle(router, payload("batch_scrape.page"))

    header = header_of(output / "pages/example.com/guides/winter.md")
    assert header["event"] == "batch_scrape.page"
    assert header["cached_at"] == "2026-08-03T21:11:25.636000+00:00"


def test_a_page_belongs_to_the_requested_address(output: Path) -> None:
    """Two addresses that lead to one page are two files, and each names the final address."""
    for url in (PRICES, "https://example.com/old-prices"):
        handle(router, page_of(url, data__0__metadata__url=PRICES))

    assert files_in(output / "pages/example.com") == ["old-prices.md", "prices.md"]
    assert header_of(output / "pages/example.com/old-prices.md")["url"] == PRICES


def test_a_page_without_any_address_is_named_after_its_delivery(output: Path) -> None:
    """It is kept, and running it again writes the same file."""
    event = payload("crawl.page", data__0__metadata={})

    handle(router, event)
    handle(router, event)

    (name,) = files_in(output / "pages")
    assert name.startswith("no-host/3c6ef362-0002-4c3d-9e2f-000000033232~")


@pytest.mark.parametrize(
    "name",
    [
        "crawl.page.error",
        "crawl.page.404",
        "crawl.page.cancelled",
        "batch_scrape.page.error",
        "batch_scrape.page.v0",
    ],
)
def test_a_faulty_page_writes_nothing(name: str) -> None:
    """It is in the job's summary; a good file of the same URL stays as it was."""
    assert wanted_by(router, payload(name)) == []


def test_a_page_without_a_document_writes_nothing() -> None:
    """The service counts it as a success, and there is nothing to write."""
    assert wanted_by(router, payload("crawl.page", data=[])) == []


def test_a_page_of_old_senders_that_only_has_an_error_text_writes_nothing() -> None:
    """Before September 2025 failed pages of a batch said that they were a success."""
    assert wanted_by(router, payload("batch_scrape.page.error", success=True)) == []


def test_an_unparsed_pdf_is_saved_beside_its_file(output: Path) -> None:
    """With parsePDF false the service puts the whole file in base64 where the Markdown should be."""
    pdf = b"%PDF-1.7\n" + bytes(range(256))
    text = base64.b64encode(pdf).decode()

    handle(router, payload("batch_scrape.page.pdf", data__0__markdown=text))

    folder = output / "pages/example.com/files"
    assert files_in(folder) == ["handbook.pdf.md", "handbook.pdf.pdf"]
    assert (folder / "handbook.pdf.pdf").read_bytes() == pdf
    assert body_of(folder / "handbook.pdf.md") == "[The PDF](<handbook.pdf.pdf>) was not parsed.\n"


@pytest.mark.parametrize("text", ["JVBERi0 is how a PDF begins in base64", "JVBERi0xLjcKJ"])
def test_a_text_that_only_starts_like_a_pdf_is_a_text(output: Path, text: str) -> None:
    """A text that cannot be decoded is kept as it came."""
    handle(router, page_of(PRICES, data__0__markdown=text))

    assert body_of(output / "pages/example.com/prices.md") == text


def test_a_page_without_markdown_names_its_other_formats(output: Path) -> None:
    """And how to read them."""
    event = page_of(PRICES, data__0__html="<p>Hi</p>", data__0__rawHtml="<p>Hi</p>")
    del event["data"][0]["markdown"]

    [run] = handle(router, event)

    body = body_of(output / "pages/example.com/prices.md")
    assert body == (
        f"No Markdown came with this page. The delivery has html, links, raw_html: `receiver events raw {run.id}`\n"
    )


def test_half_a_surrogate_pair_does_not_stop_a_page(output: Path) -> None:
    """The sender cuts strings anywhere; what no encoding can write becomes a question mark."""
    broken = "caf\ud83d"

    handle(router, page_of(PRICES, data__0__markdown=broken, data__0__metadata__title=broken))

    path = output / "pages/example.com/prices.md"
    assert body_of(path) == "caf?"
    assert header_of(path)["title"] == "caf?"


@given(st.text(st.characters(codec="utf-8"), max_size=50), st.lists(st.text(), max_size=3))
def test_no_title_can_break_out_of_the_front_matter(title: str, more: list[str]) -> None:
    """Each value is one quoted line, without characters that YAML forbids or takes for the end of a line."""
    with fresh_output() as output:
        handle(router, page_of(PRICES, data__0__metadata__title=title, data__0__metadata__description=more))
        path = output / "pages/example.com/prices.md"
        head = path.read_bytes().decode().split("\n---\n")[0]

        assert header_of(path)["title"] == title
        assert head.count("\n") == 12
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]", head)
