"""Sitemaps: which files are read, in which order, and what hostile ones can do."""

import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.clock import VirtualClock
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.robots import ALLOW_ALL, RobotsRules
from receiver.emulator.fetching.sitemaps import MAX_SITEMAP_URLS, MAX_SITEMAPS, read_sitemap, sitemap_urls
from receiver.emulator.options import EmulatorOptions, SiteSource

SITE = "https://docs.acme.test"
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urlset(*urls: str) -> str:
    return f"<urlset {NAMESPACE}>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>"


def index(*urls: str) -> str:
    rows = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex {NAMESPACE}>{rows}</sitemapindex>"


def pages(text: str | bytes) -> list[str]:
    return read_sitemap(text.encode() if isinstance(text, str) else text).pages


@pytest.mark.parametrize(
    "text",
    [
        urlset("http://a/1", "http://a/2"),
        "<?xml version='1.0' encoding='UTF-8'?>\n" + urlset("\n http://a/1 \n", "<![CDATA[http://a/2]]>"),
        "<urlset><url><loc>http://a/1</loc></url><url><loc>http://a/2</loc><lastmod>x</lastmod></url></urlset>",
        '<s:urlset xmlns:s="x"><s:url><s:loc>http://a/1</s:loc></s:url><s:url><s:loc>http://a/2</s:loc></s:url></s:urlset>',
        "http://a/1\r\nhttp://a/2\n\n",
        urlset("http://a/1", "http://a/2")[:-9],  # cut short
    ],
)
def test_a_file_lists_its_pages(text: str) -> None:
    assert pages(text) == ["http://a/1", "http://a/2"]
    assert pages(gzip.compress(text.encode())) == ["http://a/1", "http://a/2"]


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "windows-1252"])
def test_a_file_may_have_another_encoding(encoding: str) -> None:
    text = f"<?xml version='1.0' encoding='{encoding}'?>" + urlset("http://a/é")

    assert pages(text.encode(encoding)) == ["http://a/é"]


def test_images_and_videos_of_a_page_are_no_pages() -> None:
    text = (
        f'<urlset {NAMESPACE} xmlns:i="i"><url><loc>http://a/1</loc>'
        "<i:image><i:loc>http://a/image</i:loc></i:image></url></urlset>"
    )

    assert pages(text) == ["http://a/1"]


def test_an_index_lists_sitemaps() -> None:
    file = read_sitemap(index("http://a/1.xml").encode())

    assert (file.pages, file.sitemaps) == ([], ["http://a/1.xml"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html><body><p>Not found",
        "\x1f\x8b broken",
        "<loc>http://a/1</loc>",
        '<!DOCTYPE x [<!ENTITY a "http://a/1">]>' + urlset("&a;"),
        '<!DOCTYPE x SYSTEM "file:///etc/passwd">' + urlset("http://a/1"),
        "<?xml version='1.0' encoding='no-such'?>" + urlset("http://a/1"),
        "<?xml version='1.0' encoding='rot13'?>" + urlset("http://a/1"),
        urlset("http://a/" + "x" * 3_000),
    ],
)
def test_what_is_no_sitemap_lists_nothing(text: str) -> None:
    assert pages(text.encode("latin-1")) == []


def test_entities_do_not_multiply() -> None:
    lines = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "http://a/"}">' for n in range(30))

    assert pages(f"<!DOCTYPE x [{lines}]>{urlset('&l29;')}") == []


def test_a_gzip_bomb_is_cut() -> None:
    bomb = gzip.compress(urlset("http://a/1")[:-9].encode() + b" " * 60_000_000)

    assert pages(bomb) == ["http://a/1"]


def test_a_file_lists_at_most_50000_pages() -> None:
    assert (
        len(pages(urlset(*(f"http://a/{number}" for number in range(MAX_SITEMAP_URLS + 10))))) == MAX_SITEMAP_URLS
    )


def test_deep_nesting_does_no_harm() -> None:
    assert pages("<urlset>" + "<url>" * 200_000 + "<loc>http://a/1</loc>") == ["http://a/1"]


@given(data=st.binary(max_size=200))
def test_any_bytes_can_be_read(data: bytes) -> None:
    read_sitemap(data)
    read_sitemap(b"<urlset><url><loc>" + data)


async def found(
    site: dict[str, str | bytes], url: str = SITE, robots: RobotsRules = ALLOW_ALL, **others: Any
) -> list[str]:
    sites: dict[str, SiteSource] = {SITE: site, **others.pop("sites", {})}
    async with Fetcher(EmulatorOptions(sites=sites, **others), VirtualClock()) as fetcher:
        return [one async for one in sitemap_urls(fetcher, url, robots)]


async def test_the_usual_places_are_looked_at_in_order() -> None:
    site: dict[str, str | bytes] = {
        "/robots-map.xml": urlset("https://docs.acme.test/by-robots", "https://docs.acme.test/docs/a"),
        "/docs/sitemap.xml": urlset("https://docs.acme.test/docs/a"),
        "/sitemap.xml": urlset("/relative"),
    }
    above: dict[str, SiteSource] = {"https://acme.test": {"/sitemap.xml": urlset("https://acme.test/above")}}
    robots = RobotsRules("Sitemap: https://docs.acme.test/robots-map.xml")

    assert await found(site, f"{SITE}/docs/intro.html", robots, sites=above) == [
        "https://docs.acme.test/by-robots",
        "https://docs.acme.test/docs/a",
        "https://docs.acme.test/relative",
        "https://acme.test/above",
    ]


async def test_an_index_leads_to_further_files() -> None:
    site: dict[str, str | bytes] = {
        "/sitemap.xml": index(f"{SITE}/one.xml.gz", "/two.xml"),
        "/one.xml.gz": gzip.compress(urlset(f"{SITE}/1").encode()),
        "/two.xml": urlset(f"{SITE}/2"),
    }

    assert await found(site) == [f"{SITE}/1", f"{SITE}/2"]


async def test_loops_of_sitemaps_end() -> None:
    site: dict[str, str | bytes] = {
        "/sitemap.xml": index("/sitemap.xml", "/b.xml"),
        "/b.xml": index("/sitemap.xml", "/b.xml"),
    }

    assert await found(site) == []


async def test_at_most_20_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = Fetcher.fetch_file

    async def noted(self: Fetcher, url: str, **others: Any) -> Any:
        asked.append(url)
        return await original(self, url, **others)

    monkeypatch.setattr(Fetcher, "fetch_file", noted)
    site: dict[str, str | bytes] = {
        f"/s{number}.xml": index(f"/s{number + 1}.xml", f"/s{number + 1000}.xml") for number in range(50)
    }
    await found(site | {"/sitemap.xml": index("/s0.xml")})

    assert len(asked) == len(set(asked)) == MAX_SITEMAPS


async def test_only_urls_of_the_web_are_listed_and_no_credentials() -> None:
    site: dict[str, str | bytes] = {
        "/sitemap.xml": urlset("file:///etc/passwd", "javascript:x", "http://[", "https://u:p@docs.acme.test/a")
    }

    assert await found(site) == [f"{SITE}/a"]
