"""Sites that are given as a folder or a mapping: which file answers, and that nothing else ever does."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.clock import VirtualClock
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.fetcher import Fetcher
from receiver.emulator.fetching.sites import GivenSite, GivenSites, SiteAnswer
from receiver.emulator.options import EmulatorOptions, SiteSource
from receiver.emulator.scrapes import FetchedPage, ScrapePlan
from receiver.errors import ConfigurationError

ORIGIN = "https://docs.acme.test"
LIMIT = 10_000


def write(root: Path, **files: str | bytes) -> Path:
    for name, content in files.items():
        put(root, name, content)
    return root


def put(root: Path, name: str, content: str | bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def folder(root: Path, files: dict[str, str | bytes]) -> GivenSite:
    for name, content in files.items():
        put(root, name, content)
    return GivenSite(ORIGIN, root)


def asked(site: GivenSite, target: str) -> tuple[int, bytes]:
    answer = site.answer(target, LIMIT)
    return answer.status, answer.location.encode() or answer.body()


async def fetched(url: str, sites: dict[str, SiteSource], **options: Any) -> FetchedPage:
    async with Fetcher(EmulatorOptions(sites=sites, **options), VirtualClock()) as fetcher:
        return await fetcher.fetch(ScrapePlan(url=url))


FILES: dict[str, str | bytes] = {
    "index.html": "home",
    "about.html": "about",
    "docs/index.html": "docs",
    "docs/a b.html": "space",
    "both.html": "file",
    "both/index.html": "folder",
    "logo.png": b"\x89PNG",
    "plain": "text",
    "page": "<p>",
}


@pytest.mark.parametrize(
    ("target", "status", "content"),
    [
        ("/", 200, b"home"),
        ("/index.html", 200, b"home"),
        ("/?utm=1", 200, b"home"),
        ("/about", 200, b"about"),
        ("/about/", 200, b"about"),
        ("/about.html", 200, b"about"),
        ("/docs/", 200, b"docs"),
        ("/docs", 301, b"/docs/"),
        ("/docs/a%20b", 200, b"space"),
        ("/both", 200, b"file"),
        ("/both/", 200, b"folder"),
        ("/logo.png", 200, b"\x89PNG"),
    ],
)
def test_a_path_is_answered_by_its_file(tmp_path: Path, target: str, status: int, content: bytes) -> None:
    assert asked(folder(tmp_path, FILES), target) == (status, content)


@pytest.mark.parametrize(
    ("target", "content_type"),
    [("/", "text/html"), ("/logo.png", "image/png"), ("/plain", "text/plain"), ("/page", "text/html")],
)
def test_a_file_has_the_type_of_its_name_or_its_beginning(tmp_path: Path, target: str, content_type: str) -> None:
    assert folder(tmp_path, FILES).answer(target, LIMIT).content_type == content_type


@pytest.mark.parametrize("custom", [True, False])
def test_a_missing_page_is_a_404_page(tmp_path: Path, custom: bool) -> None:
    site = folder(tmp_path, {"404.html": "<p>own</p>"} if custom else {})

    status, body = asked(site, "/none")

    assert (status, b"own" in body) == (404, custom)


@pytest.fixture
def guarded(tmp_path: Path) -> GivenSite:
    """A site beside a secret, with links of all kinds to it."""
    put(tmp_path, "secret.html", "secret")
    root = tmp_path / "site"
    for name in (".env", ".git/config", "docs/.hidden.html", "in/page.html", ".well-known/security.txt"):
        put(root, name, "inside" if name == "in/page.html" else "hidden")
    (root / "file-out.html").symlink_to(tmp_path / "secret.html")
    (root / "folder-out").symlink_to(tmp_path)
    (root / "loop.html").symlink_to(root / "loop.html")
    (root / "to-hidden.html").symlink_to(root / ".env")
    (root / "in-link.html").symlink_to(root / "in" / "page.html")
    os.mkfifo(root / "pipe.html")
    return GivenSite(ORIGIN, root)


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.html", "/..%2fsecret.html", "/%2e%2e/secret.html", "/%2e%2e%2fsecret.html", "/..%5csecret.html",
        "/docs/../../secret", "/%252e%252e/secret.html", "//secret.html", "/./secret.html", "/secret.html%00.html",
        "/%00", "/file-out.html", "/file-out", "/folder-out/secret.html", "/loop.html", "/to-hidden.html", "/.env",
        "/.git/config", "/docs/.hidden.html", "/pipe.html", "/in/", "/in", "/" + "a" * 5_000, "/" + "a/" * 5_000,
        "/%ff%fe", "/~root/", "/proc/self/environ", "/_redirects",
    ],
)  # fmt: skip
def test_nothing_outside_of_the_folder_is_served(guarded: GivenSite, target: str) -> None:
    status, body = asked(guarded, target)

    assert status == 404
    assert b"secret" not in body
    assert b"hidden" not in body


def test_links_inside_of_the_folder_and_well_known_files_are_served(guarded: GivenSite) -> None:
    assert asked(guarded, "/in-link.html") == (200, b"inside")
    assert asked(guarded, "/.well-known/security.txt") == (200, b"hidden")


@given(target=st.text(alphabet="./\\%2fe5c0aà~", max_size=40))
def test_no_path_leads_out(tmp_path_factory: pytest.TempPathFactory, target: str) -> None:
    parent = tmp_path_factory.getbasetemp() / "no-path"
    put(parent, "secret", "secret")
    put(parent, "site/a", "inside")
    url = httpx.URL(f"{ORIGIN}/").join(httpx.URL(path="/" + target.lstrip("/")))

    assert GivenSite(ORIGIN, parent / "site").answer(url.raw_path.decode(), LIMIT).body() != b"secret"


def test_a_folder_may_change_between_two_requests(tmp_path: Path) -> None:
    site = folder(tmp_path, {"a.html": "one"})
    assert asked(site, "/a") == (200, b"one")

    put(tmp_path, "a.html", "two")
    assert asked(site, "/a") == (200, b"two")

    (tmp_path / "a.html").unlink()
    assert asked(site, "/a")[0] == 404


MAPPED: dict[str, str | bytes] = {
    f"{ORIGIN}": "home",
    "/docs/": "docs",
    "/docs/intro": "intro",
    "list?page=2": "second",
    f"{ORIGIN}/list": "first",
    "/a%20b": "escaped",
    "/ü": "umlaut",
    "/data.json": "{}",
    "/latin": b"<p>\xe9",
}


@pytest.mark.parametrize(
    ("target", "status", "content"),
    [
        ("/", 200, b"home"),
        ("/docs", 301, b"/docs/"),
        ("/docs/", 200, b"docs"),
        ("/docs/intro", 200, b"intro"),
        ("/docs/intro/", 200, b"intro"),
        ("/list", 200, b"first"),
        ("/list?page=2", 200, b"second"),
        ("/list?page=3", 200, b"first"),
        ("/a%20b", 200, b"escaped"),
        ("/%C3%BC", 200, b"umlaut"),
        ("/latin", 200, b"<p>\xe9"),
        ("/none", 404, None),
    ],
)
def test_a_mapping_is_a_site(target: str, status: int, content: bytes | None) -> None:
    answered = asked(GivenSite(ORIGIN, MAPPED), target)

    assert answered[0] == status
    assert content is None or answered[1] == content


@pytest.mark.parametrize(
    ("target", "content_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/data.json", "application/json; charset=utf-8"),
        ("/latin", "text/html"),
    ],
)
def test_texts_of_a_mapping_are_utf_8(target: str, content_type: str) -> None:
    assert GivenSite(ORIGIN, MAPPED).answer(target, LIMIT).content_type == content_type


def test_a_mapping_may_change_between_two_requests() -> None:
    pages: dict[str, str | bytes] = {"/a": "one"}
    site = GivenSite(ORIGIN, pages)
    pages["/a"] = "two"
    pages["/b"] = "new"

    assert (asked(site, "/a")[1], asked(site, "/b")[1]) == (b"two", b"new")


REDIRECTS = """
# a comment
/old /about 301   # moved
/temp   /docs/?a=1 302
/blog/* /news/:splat
/away https://other.test/x 308
/gone /about.html 410
/about.html /taken 302
/closed /about 503!
/self /self
/bad
/worse /x abc
no-slash /x
/worst /x 20000000000000000000
"""


@pytest.mark.parametrize(
    ("target", "status", "content"),
    [
        ("/old", 301, b"/about"),
        ("/old/", 301, b"/about"),
        ("/temp", 302, b"/docs/?a=1"),
        ("/blog/a/b", 301, b"/news/a/b"),
        ("/away", 308, b"https://other.test/x"),
        ("/gone", 410, b"about"),
        ("/about.html", 200, b"about"),
        ("/closed", 503, b"about"),
    ],
)
def test_a_site_has_redirects_and_other_statuses(tmp_path: Path, target: str, status: int, content: bytes) -> None:
    assert asked(folder(tmp_path, {"_redirects": REDIRECTS, **FILES}), target) == (status, content)


@pytest.mark.parametrize("target", ["/bad", "/worse", "/no-slash", "/worst", "/_redirects"])
def test_a_line_that_is_no_rule_does_nothing(tmp_path: Path, target: str) -> None:
    assert asked(folder(tmp_path, {"_redirects": REDIRECTS, **FILES}), target)[0] == 404


async def test_a_redirect_loop_of_a_site_ends() -> None:
    with pytest.raises(ScrapeFailed, match="ERR_TOO_MANY_REDIRECTS"):
        await fetched(f"{ORIGIN}/self", {ORIGIN: {"/_redirects": "/self /self"}})


def test_a_sitemap_is_made_of_the_pages_if_there_is_none(tmp_path: Path) -> None:
    site = folder(tmp_path, {**FILES, "404.html": "", "_redirects": "", ".git/x.html": "", "a&b.html": ""})

    body = site.answer("/sitemap.xml", LIMIT).body().decode()

    assert [line.partition("<loc>")[2].partition("<")[0] for line in body.splitlines() if "<loc>" in line] == [
        f"{ORIGIN}/{name}"
        for name in (
            "a%26b",
            "about",
            "both.html",
            "",
            "page",
            "plain",
            "both/",
            "docs/a%20b",
            "docs/",
        )
    ]


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ('<a href="/about">', "about"),
        ('<a href="about.html">', "about.html"),
        (f"<a href={ORIGIN}/about.html#team>", "about.html"),
        ('<a href="https://other.test/about.html">', "about"),
        ('<a href="docs/index.html">', "about"),
    ],
)
def test_a_sitemap_has_one_address_for_a_page(tmp_path: Path, link: str, address: str) -> None:
    """It is the one by which the pages of the site link to it: a crawl would meet the page twice otherwise."""
    site = folder(tmp_path, {"index.html": link, "about.html": ""})

    assert list(site.page_urls()) == [f"{ORIGIN}/{address}", f"{ORIGIN}/"]


def test_a_sites_own_sitemap_comes_first(tmp_path: Path) -> None:
    assert asked(folder(tmp_path, {"sitemap.xml": "<own/>"}), "/sitemap.xml") == (200, b"<own/>")


async def test_a_given_site_needs_no_network() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise AssertionError(host)

    options = EmulatorOptions(sites={ORIGIN: {"/": "home"}})
    async with Fetcher(options, VirtualClock(), resolve=resolve) as fetcher:
        page = await fetcher.fetch(ScrapePlan(url="https://DOCS.acme.test"))

    assert (page.body, page.url, page.source_url) == (b"home", f"{ORIGIN}/", "https://DOCS.acme.test")


async def test_http_leads_to_a_site_that_was_given_with_https() -> None:
    page = await fetched("http://docs.acme.test/a?b=1", {ORIGIN: {"/a": "page"}})

    assert (page.url, page.body) == (f"{ORIGIN}/a?b=1", b"page")


async def test_a_page_of_a_given_site_is_no_larger_than_the_limit() -> None:
    with pytest.raises(ScrapeFailed, match="ERR_FILE_TOO_BIG"):
        await fetched(f"{ORIGIN}/a", {ORIGIN: {"/a": "x" * 11}}, max_page_bytes=10)


async def test_a_large_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "large.html").open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room on the disk, and would not fit into memory

    with pytest.raises(ScrapeFailed, match="ERR_FILE_TOO_BIG"):
        await fetched(f"{ORIGIN}/large", {ORIGIN: tmp_path})


async def test_each_page_of_a_given_site_takes_the_delay_but_its_robots_do_not() -> None:
    options = EmulatorOptions(sites={ORIGIN: {"/a": "page"}}, page_delay=timedelta(hours=1))
    async with Fetcher(options, VirtualClock()) as fetcher:
        await fetcher.fetch_file(f"{ORIGIN}/a", timeout=timedelta(seconds=20), max_bytes=10)
        with pytest.raises(ScrapeFailed, match="within"):
            await fetcher.fetch(ScrapePlan(url=f"{ORIGIN}/a", timeout=20))


@pytest.mark.parametrize(
    "origin",
    ["docs.acme.test", "https://docs.acme.test/docs", "ftp://a.test", "https://u:p@a.test", ""],
)
def test_a_site_is_given_by_its_origin(origin: str) -> None:
    with pytest.raises(ConfigurationError, match="origin"):
        GivenSites(EmulatorOptions(sites={origin: {}}))


def test_a_wrong_folder_or_page_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not there"):
        GivenSites(EmulatorOptions(sites={ORIGIN: tmp_path / "none"}))
    with pytest.raises(ConfigurationError, match="not of the site"):
        GivenSites(EmulatorOptions(sites={ORIGIN: {f"{ORIGIN}.evil.test/": ""}}))


@pytest.mark.parametrize(
    "origin", ["https://Docs.Acme.test/", "https://docs.acme.test:443", "https://docs.acme.test."]
)
async def test_origins_may_be_spelled_in_many_ways(origin: str) -> None:
    assert (await fetched(f"{ORIGIN}/a", {origin: {"/a": "page"}})).body == b"page"


async def test_two_sites_of_one_host_differ_by_their_port() -> None:
    sites: dict[str, SiteSource] = {"http://a.localhost:1": {"/": "one"}, "http://a.localhost:2": {"/": "two"}}

    bodies = await asyncio.gather(*(fetched(f"{origin}/", sites) for origin in sites))

    assert [page.body for page in bodies] == [b"one", b"two"]


def test_what_a_site_answers_is_bytes() -> None:
    assert SiteAnswer(200, content="ü").body() == "ü".encode()
