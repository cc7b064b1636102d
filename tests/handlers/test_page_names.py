"""The path of a page's file: one for each URL, inside the folder, valid on every file system."""

import os
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handlers.files import safe_name
from handlers.pages import page_path

HOSTS = st.sampled_from(
    [
        "example.com",
        "Example.com",
        "example.com:8080",
        "münchen.example",
        "u:p@example.com",
        "[::1]",
        "[",
        "..",
        "con",
    ]
)
SEGMENTS = st.one_of(
    st.sampled_from(
        [
            "",
            ".",
            "..",
            "a",
            "A",
            "a.md",
            "a.md_",
            "a.pdf",
            "index",
            "index.md",
            "_",
            "con",
            "lpt1.txt",
            "%2e%2e",
            "~",
        ]
    ),
    st.sampled_from(
        ["%2F..%2Fetc", "a\\b", "é", "e\u0301", "a b", "a%20b", "-", ".lock", ".unfinished", "x" * 300]
    ),
    st.text(max_size=5),
)
ENDINGS = st.sampled_from(["", "/", "?", "?q=1", "?q=2", "#part", "?../../x"])


@st.composite
def web_addresses(draw: st.DrawFn) -> str:
    path = "/".join(draw(st.lists(SEGMENTS, max_size=12)))
    slash = draw(st.sampled_from(["", "/"]))
    return f"{draw(st.sampled_from(['https', 'http', 'HTTPS']))}://{draw(HOSTS)}{slash}{path}{draw(ENDINGS)}"


URLS = st.one_of(web_addresses(), st.text(), st.text(st.characters(codec=None)))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://example.com/prices", "example.com/prices.md"),
        ("https://example.com/guides/winter", "example.com/guides/winter.md"),
        ("https://example.com/guides/winter.html", "example.com/guides/winter.html.md"),
        ("https://example.com/guides/", "example.com/guides/index.md"),
        ("https://example.com/", "example.com/index.md"),
        ("https://example.com", "example.com/index.md"),
    ],
)
def test_a_plain_address_is_its_own_file_name(url: str, path: str) -> None:
    """Nothing is added to an address that makes a good path as it is."""
    assert page_path(url) == Path(path)


@pytest.mark.parametrize(
    ("url", "folder", "beginning"),
    [
        ("https://example.com/list?page=2", "example.com", "list-page-2~"),
        ("https://example.com/?page=2", "example.com", "index-page-2~"),
        ("https://example.com/index", "example.com", "index~"),
        ("https://example.com/Guides/Winter", "example.com/guides", "winter~"),
        ("http://example.com/prices", "example.com", "prices~"),
        ("http://localhost:8080/prices", "localhost-8080", "prices~"),
        ("https://user:secret@example.com/prices", "example.com", "prices~"),
        ("https://example.com/caf%C3%A9/cr%C3%A8me", "example.com/cafe", "creme~"),
        ("https://münchen.example/prices", "xn--mnchen-3ya.example", "prices~"),
        ("https://example.com/aux/x", "example.com/_aux", "x~"),
        ("https://example.com/a.md/b", "example.com/a.md_", "b~"),
        ("https://example.com/../../etc/passwd", "example.com/_/_/etc", "passwd~"),
        ("https://example.com/%2e%2e%2f%2e%2e%2fetc", "example.com", "etc~"),
        ("about:blank", "no-host", "blank~"),
        ("", "no-host", "index~"),
    ],
)
def test_any_other_address_has_a_readable_name_and_a_hash(url: str, folder: str, beginning: str) -> None:
    """A person can still find the page, and the hash keeps it apart from its neighbours."""
    path = page_path(url)

    assert path.parent == Path(folder)
    assert path.name.startswith(beginning)
    assert len(path.name) == len(beginning) + 16 + len(".md")


def test_addresses_that_differ_in_case_have_names_that_differ_in_more() -> None:
    """On a file system that ignores case they are still two files."""
    lower, upper = page_path("https://example.com/about"), page_path("https://example.com/About")

    assert lower != upper
    assert str(lower).casefold() != str(upper).casefold()


@given(st.sets(URLS, min_size=2, max_size=6))
@example({"https://example.com/a", "https://example.com/a/", "https://example.com/a/index"})
@example({"https://example.com/a", "https://example.com/a.md", "https://example.com/a.md/b"})
@example({"https://example.com/a.md/b", "https://example.com/a.md_/b"})
@example({"https://example.com/con", "https://example.com/_con"})
@example({"https://no-host/a", "https:///a", "a"})
@example({"https://example.com//a", "https://example.com/_/a"})
@example({"https://example.com/a", "https://example.com/a?", "https://example.com/a#"})
def test_different_addresses_have_different_files_that_can_exist_together(urls: set[str]) -> None:
    """They can also where case is ignored. Only `https://host` and `https://host/` are the same page."""
    with TemporaryDirectory() as name:
        for url in urls:
            path = Path(name) / str(page_path(url)).casefold()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        found = list(Path(name).rglob("*.md"))

    assert len(found) == len({page_path(url) for url in urls})
    for one, other in combinations(sorted(urls), 2):
        assert page_path(one) != page_path(other) or f"{one}/" == other


@given(URLS)
def test_every_file_lies_inside_the_folder(url: str) -> None:
    """No part of the path leads up, is hidden, is a device, is too long, or needs more than ASCII."""
    path = page_path(url)

    assert not path.is_absolute()
    assert all(_harmless(part) for part in path.parts), path
    assert len(str(path)) < 800
    assert os.path.normpath(path) == str(path)


@given(URLS)
def test_a_file_is_never_in_the_way_of_a_folder(url: str) -> None:
    """Files end in .md or .pdf, folders never do."""
    path = page_path(url)

    assert path.suffix == ".md"
    assert not any(folder.endswith((".md", ".pdf")) for folder in path.parts[:-1])


@given(st.text(st.characters(codec=None)))
def test_a_safe_name_is_safe_and_stays_as_it_is(text: str) -> None:
    """Making it safe a second time changes nothing."""
    name = safe_name(text)

    assert _harmless(name)
    assert "~" not in name
    assert safe_name(name) == name


def _harmless(part: str) -> bool:
    return (
        part.isascii()
        and part.isprintable()
        and not part.startswith((".", "-"))
        and not part.endswith(".")
        and not set(part) & set('/\\:*?"<>| ')
        and part.partition(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt1"}
        and 0 < len(part) < 120
    )
