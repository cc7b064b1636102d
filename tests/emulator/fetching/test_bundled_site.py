"""The small site of the package: it is whole, and has one of each thing that there is to try."""

import re
from urllib.parse import urljoin

import pytest
from pypdf import PdfReader

from receiver.core.clock import VirtualClock
from receiver.emulator.bundled import BUNDLED_ORIGIN, BUNDLED_SITE
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.robots import fetch_robots
from receiver.emulator.fetching.sitemaps import sitemap_urls
from receiver.emulator.fetching.sites import GivenSite
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.scrapes import ScrapePlan

SITE = GivenSite(BUNDLED_ORIGIN, BUNDLED_SITE)
_REFERENCE = re.compile(r'(?:href|src)="([^"]+)"')


def linked_from(path: str) -> set[str]:
    html = SITE.answer(path, 100_000).body().decode()
    urls = (urljoin(f"{BUNDLED_ORIGIN}{path}", found) for found in _REFERENCE.findall(html))
    return {url.removeprefix(BUNDLED_ORIGIN).partition("#")[0] for url in urls if url.startswith(BUNDLED_ORIGIN)}


def reached() -> set[str]:
    paths, waiting = {"/"}, ["/"]
    while waiting:
        path = waiting.pop()
        if SITE.answer(path, 100_000).content_type == "text/html":
            new = linked_from(path) - paths
            paths |= new
            waiting += new
    return paths


def test_every_link_and_image_of_the_site_is_there() -> None:
    assert {path: SITE.answer(path, 100_000).status for path in reached()} == dict.fromkeys(reached(), 200)


async def test_the_sitemap_lists_all_pages_but_the_one_that_robots_forbids() -> None:
    pages = {
        path for path in reached() if SITE.answer(path, 100_000).content_type in ("text/html", "application/pdf")
    }
    async with Fetcher(EmulatorOptions(), VirtualClock()) as fetcher:
        robots = await fetch_robots(fetcher, BUNDLED_ORIGIN)
        listed = {url async for url in sitemap_urls(fetcher, BUNDLED_ORIGIN, robots)}

    assert listed == {f"{BUNDLED_ORIGIN}{path}" for path in pages - {"/internal/drafts"}}
    assert len(listed) >= 12
    assert not robots.allows(f"{BUNDLED_ORIGIN}/internal/drafts")


@pytest.mark.parametrize(
    ("path", "content_type", "has"),
    [
        ("/products/fern-sensor", "text/html", b"application/ld+json"),
        ("/products/moss-pump", "text/html", b"itemscope"),
        ("/blog/first-frost", "text/html", b"og:title"),
        ("/pricing", "text/html", b"<thead>"),
        ("/docs/installation", "text/html", b"language-yaml"),
        ("/images/logo.svg", "image/svg+xml", b"<svg"),
        ("/images/sensor.png", "image/png", b"PNG"),
        ("/manual.pdf", "application/pdf", b"%PDF"),
        ("/none", "text/html", b"Page not found"),
    ],
)
def test_there_is_one_of_each_thing(path: str, content_type: str, has: bytes) -> None:
    answer = SITE.answer(path, 100_000)

    assert answer.content_type == content_type
    assert has in answer.body()


def test_the_pdf_has_two_pages() -> None:
    pages = PdfReader(BUNDLED_SITE / "manual.pdf", strict=True).pages

    assert ["Press the button" in page.extract_text() for page in pages] == [True, False]


async def test_the_site_can_be_left_out() -> None:
    async with Fetcher(EmulatorOptions(), VirtualClock()) as fetcher:
        page = await fetcher.fetch(ScrapePlan(url="http://docs.example.com/start"))
        assert page.url == f"{BUNDLED_ORIGIN}/docs/getting-started"

    async with Fetcher(EmulatorOptions(bundled_site=False), VirtualClock()) as fetcher:
        assert fetcher.sites.origins == ()


async def test_a_given_site_takes_the_place_of_the_bundled_one() -> None:
    options = EmulatorOptions(sites={BUNDLED_ORIGIN: {"/": "mine"}})
    async with Fetcher(options, VirtualClock()) as fetcher:
        assert (await fetcher.fetch(ScrapePlan(url=BUNDLED_ORIGIN))).body == b"mine"
