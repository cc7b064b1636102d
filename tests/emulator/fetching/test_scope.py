"""Which links a crawl follows: each row of the service's table, in its order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.fetching.robots import RobotsRules
from receiver.emulator.fetching.scope import CrawlRules, CrawlScope, LinkVerdict, UrlPatterns, WrongPattern
from receiver.emulator.fetching.web_urls import url_key

TAKEN = LinkVerdict.TAKEN


def judged(url: str, seed: str = "https://acme.test/", robots: str = "", **rules: Any) -> LinkVerdict:
    return CrawlScope(seed, CrawlRules(**rules), RobotsRules(robots)).judge(url)


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        ("https://acme.test/a", TAKEN),
        ("https://acme.test", TAKEN),
        ("http://www.acme.test/a", TAKEN),
        ("https://ACME.test:443/a", TAKEN),
        ("https://acme.test/a.pdf", TAKEN),
        ("https://acme.test/a.docx", TAKEN),
        ("https://acme.test/a.PNG", TAKEN),  # as spelled
        ("https://acme.test/#/route", TAKEN),
        ("https://acme.test/#!/route", TAKEN),
        ("mailto:a@acme.test", LinkVerdict.NOT_WEB),
        ("javascript:void(0)", LinkVerdict.NOT_WEB),
        ("ftp://acme.test/a", LinkVerdict.NOT_WEB),
        ("http://[broken", LinkVerdict.NOT_WEB),
        ("/relative", LinkVerdict.NOT_WEB),
        (f"https://acme.test/{'a' * 8_000}", LinkVerdict.TOO_LONG),
        ("https://acme.test/a.png", LinkVerdict.FILE),
        ("https://acme.test/a.css?v=1", LinkVerdict.FILE),
        ("https://other.test/a.woff2", LinkVerdict.FILE),
        ("https://acme.test/a#part", LinkVerdict.SECTION),
        ("https://acme.test:8443/a", LinkVerdict.EXTERNAL),
        ("https://docs.acme.test/a", LinkVerdict.EXTERNAL),
        ("https://other.test/a", LinkVerdict.EXTERNAL),
        ("https://www.facebook.com/acme", LinkVerdict.SOCIAL),
        ("https://de.pinterest.co.uk/x", LinkVerdict.SOCIAL),
        ("https://discord.gg/x", LinkVerdict.SOCIAL),
    ],
)
def test_links_of_a_plain_crawl(url: str, verdict: LinkVerdict) -> None:
    assert judged(url) is verdict


@pytest.mark.parametrize(
    ("seed", "path", "inside"),
    [
        ("/", "/a", True),
        ("", "/a", True),
        ("/docs/", "/docs/a", True),
        ("/docs/", "/docs", False),
        ("/docs/", "/docsy/a", False),
        ("/docs", "/docs", True),
        ("/docs", "/docs/a", True),
        ("/docs", "/docs-old", False),
        ("/docs", "/", False),
        ("/docs/intro.html", "/docs/other.html", True),
        ("/docs/intro.html", "/docs/", True),
        ("/docs/intro.html", "/docs", False),
        ("/docs/intro.html", "/blog/", False),
        ("/v1.2", "/v1.2/a", True),
        ("/v1.2", "/", False),
    ],
)
def test_the_path_of_the_seed_is_the_scope(seed: str, path: str, inside: bool) -> None:
    verdict = judged(f"https://acme.test{path}", f"https://acme.test{seed}")

    assert verdict is (TAKEN if inside else LinkVerdict.OUTSIDE_SCOPE)
    assert judged(f"https://acme.test{path}", f"https://acme.test{seed}", crawl_entire_domain=True) is TAKEN


@pytest.mark.parametrize(
    ("path", "verdict"),
    [("/a/b/c", TAKEN), ("/a/b/c/", TAKEN), ("/a/b/c/d", LinkVerdict.TOO_DEEP), ("/a//b///c", TAKEN)],
)
def test_version_1_bounds_the_segments_beyond_those_of_the_seed(path: str, verdict: LinkVerdict) -> None:
    assert judged(f"https://acme.test{path}", "https://acme.test/a", max_depth=2) is verdict


@pytest.mark.parametrize(
    ("rules", "url", "verdict"),
    [
        ({"exclude_paths": ("^/blog/",)}, "https://acme.test/blog/a", LinkVerdict.EXCLUDED),
        ({"exclude_paths": ("log",)}, "https://acme.test/blog", LinkVerdict.EXCLUDED),
        ({"exclude_paths": ("acme",)}, "https://acme.test/a", TAKEN),
        ({"exclude_paths": ("acme",), "regex_on_full_url": True}, "https://acme.test/a", LinkVerdict.EXCLUDED),
        ({"exclude_paths": ("q=1",)}, "https://acme.test/a?q=1", TAKEN),
        ({"include_paths": ("/docs/.*",)}, "https://acme.test/docs/a", TAKEN),
        ({"include_paths": ("/docs/.*",)}, "https://acme.test/", LinkVerdict.NOT_INCLUDED),
        ({"include_paths": ("/blog/*",)}, "https://acme.test/blog", TAKEN),  # no glob: any number of slashes
        ({"include_paths": ("a",), "exclude_paths": ("a",)}, "https://acme.test/a", LinkVerdict.EXCLUDED),
        ({"include_paths": ("^/$",)}, "https://acme.test", TAKEN),
    ],
)
def test_expressions_for_paths(rules: dict[str, Any], url: str, verdict: LinkVerdict) -> None:
    assert judged(url, **rules) is verdict


def test_robots_come_last_on_the_same_host_and_count_nowhere_else() -> None:
    robots = "User-agent: *\nDisallow: /private"

    assert judged("https://acme.test/private/a", robots=robots) is LinkVerdict.ROBOTS
    assert judged("https://acme.test/private/a", robots=robots, exclude_paths=("a",)) is LinkVerdict.EXCLUDED
    assert judged("https://other.test/private/a", robots=robots, allow_external_links=True) is TAKEN


@pytest.mark.parametrize(
    ("rules", "url", "verdict"),
    [
        ({"allow_external_links": True}, "https://other.test/a", TAKEN),
        ({"allow_external_links": True}, "https://other.test/?a=1", TAKEN),
        ({"allow_external_links": True}, "https://other.test/", LinkVerdict.EXTERNAL),
        ({"allow_external_links": True}, "https://github.com/acme", LinkVerdict.SOCIAL),
        ({"allow_external_links": True, "exclude_paths": ("other",)}, "https://other.test/a", LinkVerdict.EXCLUDED),
        ({"allow_external_links": True}, "http://127.0.0.1/a", LinkVerdict.EXTERNAL),
        ({"allow_external_links": True}, "http://192.168.0.1/a", LinkVerdict.EXTERNAL),
        ({"allow_external_links": True}, "http://localhost/a", LinkVerdict.EXTERNAL),
        ({"allow_subdomains": True}, "https://docs.acme.test/a", TAKEN),
        ({"allow_subdomains": True}, "https://docs.acme.test/", TAKEN),
        ({"allow_subdomains": True}, "https://docs.acme.test:81/a", LinkVerdict.EXTERNAL),
        ({"allow_subdomains": True}, "https://acmex.test/a", LinkVerdict.EXTERNAL),
        ({"allow_subdomains": True, "include_paths": ("^/b",)}, "https://docs.acme.test/a", LinkVerdict.EXTERNAL),
        ({"allow_subdomains": True, "include_paths": ("^/b",)}, "https://docs.acme.test/b", TAKEN),
    ],
)
def test_other_hosts(rules: dict[str, Any], url: str, verdict: LinkVerdict) -> None:
    assert judged(url, **rules) is verdict


def test_siblings_of_a_seed_on_a_subdomain_are_of_the_same_domain() -> None:
    assert judged("https://blog.acme.co.uk/a", "https://docs.acme.co.uk/", allow_subdomains=True) is TAKEN
    assert judged("https://b.co.uk/a", "https://a.co.uk/", allow_subdomains=True) is LinkVerdict.EXTERNAL
    assert judged("https://b.github.io/a", "https://a.github.io/", allow_subdomains=True) is LinkVerdict.EXTERNAL


def test_two_sites_on_one_machine_differ_by_their_port() -> None:
    seed = "http://127.0.0.1:8001/"

    assert judged("http://127.0.0.1:8001/a", seed) is TAKEN
    assert judged("http://127.0.0.1:8002/a", seed) is LinkVerdict.EXTERNAL
    assert judged("http://127.0.0.1:8002/a", seed, allow_external_links=True) is TAKEN


def test_a_crawl_goes_on_where_its_seed_redirected_to() -> None:
    scope = CrawlScope("https://acme.test/docs/", CrawlRules())

    moved = scope.moved_to("https://new.test/docs/")

    assert moved.judge("https://new.test/docs/a") is TAKEN
    assert moved.judge("https://acme.test/docs/a") is LinkVerdict.EXTERNAL


def test_a_crawl_starts_at_a_url() -> None:
    with pytest.raises(ValueError, match="starts at a URL"):
        CrawlScope("acme.test", CrawlRules())


@given(url=st.text(max_size=60))
def test_any_text_is_judged_and_has_a_key(url: str) -> None:
    scope = CrawlScope("https://acme.test/", CrawlRules(exclude_paths=("x",)))

    assert isinstance(scope.judge(url), LinkVerdict)
    assert isinstance(scope.judge(f"https://acme.test/{url}"), LinkVerdict)
    assert scope.key(url) == scope.key(url)


@pytest.mark.parametrize(
    "pattern", ["(", "[a", r"(a)\1", "(?=a)", "(?<!b)c", "a{1001}", "*", "((a{100}){100}){100}", "x" * 2_001]
)
def test_an_expression_that_cannot_be_used_is_named(pattern: str) -> None:
    with pytest.raises(WrongPattern) as caught:
        CrawlScope("https://acme.test/", CrawlRules(include_paths=("ok", pattern)))

    assert repr(pattern[:100])[1:-1] in str(caught.value)
    assert "includePaths" in str(caught.value)


def test_there_may_be_a_thousand_expressions() -> None:
    with pytest.raises(WrongPattern, match="at most"):
        UrlPatterns(["a"] * 1_001)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*b", "((a+)+)+$"])
def test_a_hostile_expression_takes_linear_time(pattern: str) -> None:
    """With backtracking, each of these would never end."""
    assert not UrlPatterns([pattern]).match("a" * 50_000 + "!")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://acme.test/a", "http://www.acme.test/a/", True),
        ("https://acme.test", "https://acme.test/", True),
        ("https://acme.test/a/", "https://acme.test/a/index.html", True),
        ("https://acme.test/", "https://acme.test/index.php", True),
        ("https://acme.test:443/", "http://acme.test:80/", True),
        ("https://acme.test/a#part", "https://acme.test/a", True),
        ("https://acme.test/a#/x", "https://acme.test/a", False),
        ("https://acme.test/a#!/x", "https://acme.test/a#!/y", False),
        ("https://acme.test/a?b=1", "https://acme.test/a", False),
        ("https://acme.test/A", "https://acme.test/a", False),
        ("https://acme.test:81/", "https://acme.test/", False),
        ("https://docs.acme.test/", "https://acme.test/", False),
        ("https://acme.test/myindex.html", "https://acme.test/my", False),
    ],
)
def test_similar_urls_are_one_page(one: str, other: str, same: bool) -> None:
    assert (url_key(one) == url_key(other)) is same


def test_urls_can_be_told_apart_more_exactly() -> None:
    assert url_key("https://acme.test/a", similar=False) != url_key("https://acme.test/a/", similar=False)
    assert url_key("https://ACME.test#x", similar=False) == url_key("https://acme.test/", similar=False)
    assert url_key("http://acme.test/", similar=False) != url_key("https://acme.test/", similar=False)


def test_the_query_can_be_left_out() -> None:
    scope = CrawlScope("https://acme.test/", CrawlRules(ignore_query_parameters=True))

    assert scope.key("https://acme.test/a?b=1") == scope.key("https://acme.test/a?c=2")
