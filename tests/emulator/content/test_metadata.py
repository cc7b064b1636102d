"""What a page says of itself."""

from typing import Any

import pytest

from receiver.emulator.content.metadata import _NAMED
from tests.emulator.content.pages import read


def metadata(head: str) -> dict[str, Any]:
    """Return the metadata of a page with this head."""
    return read(f'<html lang="de"><head>{head}</head><body>a</body></html>').metadata


def test_a_page_says_title_language_and_icon() -> None:
    """The first title of the head counts; one in a picture is none."""
    found = metadata('<title> a &amp; b </title><title>c</title><link rel="SHORTCUT icon" href="/i.ico">')

    assert found == {"title": "a & b", "language": "de", "favicon": "https://docs.acme.test/i.ico"}
    assert "title" not in read("<svg><title>no</title></svg>").metadata


@pytest.mark.parametrize(("tag", "name"), sorted(_NAMED.items()))
def test_known_tags_have_our_name_beside_their_own(tag: str, name: str) -> None:
    """By `name` or `property`, whatever its case; of several, our name has the first."""
    found = metadata(f'<meta name="{tag}" content="a"><meta property="{tag.upper()}" content="b">')

    assert found[name] == ("a" if name != tag else found[tag])
    assert found[tag] == "a"
    assert metadata(f'<meta property="{tag.upper()}" content="b">')[name] == "b"


def test_other_tags_have_their_own_name() -> None:
    """The second occurrence makes a list; descriptions are joined."""
    found = metadata(
        '<meta name="viewport" content="w"><meta itemprop="x" content="1"><meta name="x" content="2">'
        '<meta name="description" content="a"><meta name="description" content="b">'
        '<meta name="y"><meta content="z">'
    )

    assert found["viewport"] == "w"
    assert found["x"] == ["1", "2"]
    assert found["description"] == "a, b"
    assert "y" not in found


def test_other_locales_are_always_a_list() -> None:
    """The SDK refuses a text."""
    assert metadata('<meta property="og:locale:alternate" content="fr">')["ogLocaleAlternate"] == ["fr"]


def test_open_graph_gives_a_missing_title() -> None:
    """Its own title first, then that for another service."""
    assert metadata('<meta name="twitter:title" content="t"><meta property="og:title" content="o">')["title"] == "o"
    assert metadata('<meta name="twitter:title" content="t">')["title"] == "t"


@pytest.mark.parametrize(
    "name", ["statusCode", "url", "error", "cacheState", "numPages", "title", "ogLocaleAlternate"]
)
def test_a_page_cannot_say_what_the_service_says(name: str) -> None:
    """The SDK refuses some of these if they are not what it expects."""
    assert name not in metadata(f'<meta name="{name}" content="a">')


def test_attributes_are_read_from_the_whole_page() -> None:
    """By name, else as `data-` name; a selector that matches nothing has no values."""
    selectors = [
        {"selector": "nav a", "attribute": "href"},
        {"selector": "p", "attribute": "id"},
        {"selector": "[[", "attribute": "id"},
    ]
    formats = ({"type": "attributes", "selectors": selectors},)
    page = read('<nav><a href="/x">a</a></nav><p data-id="1"><p id="2"><p>', formats=formats)

    assert [one["values"] for one in page.attributes] == [["/x"], ["1", "2"], []]
    assert page.attributes[0] == {"selector": "nav a", "attribute": "href", "values": ["/x"]}
