"""Pages are read beside the event loop, and none of them keeps the others from being read."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from receiver.emulator.content.page import PageReaders
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.scrapes import FetchedPage
from receiver.emulator.working.processes import WorkProcesses
from tests.doubles import soon, turns
from tests.emulator.content.pages import URL, plan, read_page

FORMATS = ("markdown", "html", "rawHtml", "links", "images")
LONG = "<title>A</title><h1>Ä \ud83d\ude00</h1>" + "<p>Text with <a href=/a>a link</a><img src=b.png></p>" * 1000
ENDLESS = "<div>" * 400 + "x" + "</div>" * 400
NEVER_ENDS = "main div div div div div div div"
"""A selector for which the parser looks at each chain of six elements of `ENDLESS`: there are about 10^15."""


def page(body: str) -> FetchedPage:
    return FetchedPage(
        source_url=URL,
        url=URL,
        status=200,
        content_type="text/html; charset=utf-8",
        body=body.encode("utf-8", "surrogatepass"),
        fetched_at=datetime(2026, 8, 21, tzinfo=UTC),
    )


@pytest.fixture
async def readers() -> AsyncIterator[PageReaders]:
    async with WorkProcesses(processes=1) as work, PageReaders(work) as made:
        yield made


@pytest.mark.parametrize("body", ["<p>short</p>", LONG])
async def test_a_page_has_the_same_content_wherever_it_is_read(readers: PageReaders, body: str) -> None:
    fetched, wanted = page(body), plan(*FORMATS, exclude_tags=("h2", "<"))

    assert await readers.read(fetched, wanted) == read_page(fetched, wanted)
    assert await readers.read(fetched, plan()) == read_page(fetched, plan())


async def test_a_page_that_takes_too_long_is_given_up(readers: PageReaders) -> None:
    """The others are read as before: its process has ended."""
    wanted = plan(exclude_tags=(NEVER_ENDS,))
    reading = asyncio.create_task(readers.read(page(ENDLESS), wanted))
    await turns(100)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(reading)

    content = await soon(readers.read(page(LONG), plan()))
    assert "Text with" in content.markdown


async def test_a_page_that_cannot_be_read_fails_alone(readers: PageReaders) -> None:
    with pytest.raises(ScrapeFailed) as failed:
        await readers.read(page("<b " + "a='1' " * 5000 + ">"), plan())

    assert failed.value.code == "SCRAPE_ALL_ENGINES_FAILED"
    assert (await readers.read(page(LONG), plan())).markdown


async def test_a_process_that_dies_costs_its_page_only() -> None:
    """As when a page needs more memory than a process may have."""
    async with WorkProcesses(child="this_module_is_not_there") as work, PageReaders(work) as broken:
        with pytest.raises(ScrapeFailed, match="too much time or memory"):
            await broken.read(page(LONG), plan())
        assert (await broken.read(page("<p>short</p>"), plan())).markdown


@pytest.mark.parametrize("count", [1, 3000])
async def test_a_selector_that_looks_for_ever_through_a_document_is_given_up(
    readers: PageReaders, count: int
) -> None:
    """The text of a document is a page like any other."""
    body = csv_of(count)
    document = replace(page(""), url=f"{URL}a.csv", content_type="text/csv", body=body)
    wanted = plan(exclude_tags=("h2", "<"))

    assert await readers.read(document, wanted) == read_page(document, wanted)
    assert (await readers.read(document, plan("rawBase64"))).raw_base64 == base64.b64encode(body).decode()


def csv_of(rows: int) -> bytes:
    return b"a,b\n" + b"1,2\n" * rows
