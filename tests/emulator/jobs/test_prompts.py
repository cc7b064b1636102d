"""What the rules read from a prompt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.jobs.prompts import options_of_prompt
from receiver.emulator.wire.jobs import read_crawl


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("Extract all blog posts and documentation", {"includePaths": ["blog/.*", "docs/.*"]}),
        ("only blog and docs", {"includePaths": ["blog/.*", "docs/.*"]}),
        ("Extract all blog posts", {"includePaths": ["blog/.*"]}),
        (
            "crawl the docs but not the changelog and the blog",
            {"includePaths": ["docs/.*"], "excludePaths": ["changelog/.*", "blog/.*"]},
        ),
        ("everything except /private/area", {"excludePaths": ["private/area/.*"]}),
        ("pages under /recipes, skip the blog", {"includePaths": ["recipes/.*"], "excludePaths": ["blog/.*"]}),
        ("at most 25 pages of the docs", {"includePaths": ["docs/.*"], "limit": 25}),
        ("the first 7 products, depth 2", {"includePaths": ["products/.*"], "limit": 7, "maxDiscoveryDepth": 2}),
        ("the whole site with subdomains", {"allowSubdomains": True, "crawlEntireDomain": True}),
        ("do not follow external links", {"allowExternalLinks": False}),
        ("ignore query parameters", {"ignoreQueryParameters": True}),
        ("use only the sitemap", {"sitemap": "only"}),
        ("without the sitemap", {"sitemap": "skip"}),
        ("say something nice", {}),
        ("", {}),
    ],
)
def test_words_become_options(prompt: str, options: dict[str, Any]) -> None:
    """Parts of a site, numbers, and what is to be left out."""
    assert options_of_prompt(prompt) == options


WORDS = ("only", "not", "blog", "docs", "/a.b(c", "5", "pages", "depth", "3", ".")


@given(st.text(max_size=300) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_prompt_makes_options_that_a_crawl_takes(prompt: str) -> None:
    """The paths are expressions, the numbers are in their bounds."""
    read_crawl({"url": "https://site.test", **options_of_prompt(prompt)}, 2)
