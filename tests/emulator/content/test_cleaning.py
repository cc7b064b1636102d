"""What is taken out of a page, and what is done to its addresses (emulator facts, section 7)."""

import pytest

from receiver.emulator.content.page import clean
from receiver.emulator.content.parsing import parse_html
from receiver.emulator.content.urls import Resolver
from tests.emulator.content.pages import URL, read

TAGS = "header footer nav aside"
CLASSES = (
    "header top navbar footer bottom sidebar side aside modal popup overlay ad ads advert lang-selector language"
    " social social-media social-links menu navigation breadcrumbs share widget cookie fc-decoration"
)
IDS = "header footer sidebar modal ad language-selector social nav breadcrumbs share widget cookie"


def body(html: str, **options: object) -> str:
    """Return what is left in the body of a page."""
    whole = read(html, "html", **options).html  # type: ignore[arg-type]
    return whole.partition("<body>")[2].removesuffix("</body></html>")


def test_what_is_never_content_goes() -> None:
    """Whatever the options are, and in the body as well."""
    page = "<title>t</title><body><script>1</script><style>a{}</style><noscript>n</noscript><meta name=a>b"

    assert body(page, only_main_content=False) == "b"


@pytest.mark.parametrize(
    "element",
    [
        *(f"<{tag}>x</{tag}>" for tag in TAGS.split()),
        *(f'<div class="a {name}">x</div>' for name in CLASSES.split()),
        *(f'<div id="{name}">x</div>' for name in IDS.split()),
    ],
)
def test_what_stands_around_the_main_content_goes(element: str) -> None:
    """Each name of the table, unless the whole page is asked for."""
    assert body(f"<p>a</p>{element}") == "<p>a</p>"
    assert "x" in body(f"<p>a</p>{element}", only_main_content=False)


def test_names_that_only_begin_like_those_stay() -> None:
    """A class is a whole word."""
    assert "x" in body('<p>a</p><div class="headers sidebar-left">x</div>')


def test_an_element_around_the_main_content_stays() -> None:
    """Even if it is called a header; what stands beside the main content in it stays as well."""
    assert body('<div class="header"><p>a</p><div id="main">b</div></div><nav>c</nav>') == (
        '<div class="header"><p>a</p><div id="main">b</div></div>'
    )


def test_the_body_itself_stays() -> None:
    """Many pages give it a class such as `header`."""
    assert read('<body class="header"><p>a</p>').markdown == "a"


def test_elements_inside_one_another_go_once() -> None:
    """Removing the outer one must not break on the inner one."""
    assert body("<p>a</p><nav><nav><aside>b</aside></nav></nav>") == "<p>a</p>"


def test_a_page_without_main_content_is_taken_whole() -> None:
    """Otherwise many pages would come out blank; links and HTML are then those of the whole page."""
    page = read('<div class="header"><a href="/a">all</a><script>1</script></div>', "markdown", "html")

    assert page.markdown == "[all](https://docs.acme.test/a)"
    assert page.links == ("https://docs.acme.test/a",)
    assert 'class="header"' in page.html


def test_included_elements_come_in_the_order_of_their_selectors() -> None:
    """Each is a copy: one inside another comes twice."""
    page = '<p class="a">1<b>2</b></p><i>3</i><p class="a">4</p>'

    assert body(page, include_tags=("b", ".a")) == '<div><b>2</b><p class="a">1<b>2</b></p><p class="a">4</p></div>'


def test_included_cells_stay_cells() -> None:
    """They are copied as elements, not read again as text."""
    assert body("<table><tr><td>1</td></tr></table>", include_tags=("td",)) == "<div><td>1</td></div>"


def test_excluded_elements_go() -> None:
    """By CSS selectors, and by `*word*` in a name or attribute, whatever its case."""
    page = '<p id="Promo">1</p><div data-x="a PROMO b">2</div><p class="c">3</p><p>4</p>'

    assert body(page, exclude_tags=("*promo*", "p.c")) == "<p>4</p>"


def test_what_is_no_selector_is_told() -> None:
    """It has no effect, and that is not silent."""
    page = read("<p>a</p>", exclude_tags=("p[[",), include_tags=("p", ")"))

    assert page.markdown == "a"
    assert [warning.partition(":")[0] for warning in page.warnings] == ["includeTags", "excludeTags"]


@pytest.mark.parametrize(
    ("image", "chosen"),
    [
        ('src="a.png" srcset="b.png 480w, c.png 800w"', "c.png"),
        ('src="a.png" srcset="b.png 2x"', "b.png"),
        ('src="a.png" srcset="b.png 0.5x"', "a.png"),
        ('srcset="b.png"', "b.png"),
        ('srcset=" b,1.png 1x , c,2.png 2x "', "c,2.png"),
        ('src="a.png" data-srcset="b.png 300w"', "b.png"),
        ('src="a.png" data-src="b.png"', "a.png"),
        ('src="data:image/gif;base64,R0" data-src="b.png"', "b.png"),
        ('data-src="b.png"', "b.png"),
        ('src="/img/placeholder.png" data-src="b.png"', "b.png"),
    ],
)
def test_the_largest_version_of_an_image_is_taken(image: str, chosen: str) -> None:
    """By width or density; without one, what a script would have put there."""
    assert read(f"<img {image}>", only_main_content=False).markdown == f"![](https://docs.acme.test/guide/{chosen})"


@pytest.mark.parametrize(
    ("address", "absolute"),
    [
        ("x", "https://docs.acme.test/guide/x"),
        (" ../x ", "https://docs.acme.test/x"),
        ("/a/./b/../c", "https://docs.acme.test/a/c"),
        ("/x?y=1&amp;z#f", "https://docs.acme.test/x?y=1&z#f"),
        ("?y", "https://docs.acme.test/guide/start?y"),
        ("#f", "https://docs.acme.test/guide/start#f"),
        ("//cdn.test/x", "https://cdn.test/x"),
        ("HTTP://other.test", "HTTP://other.test"),
        ("mailto:a@b.test", "mailto:a@b.test"),
        ("a b\n\tc", "https://docs.acme.test/guide/a%20bc"),
        ("café", "https://docs.acme.test/guide/caf%C3%A9"),
        ("http://[bad", "http://[bad"),
    ],
)
def test_addresses_are_absolute(address: str, absolute: str) -> None:
    """In the cleaned page, and so in Markdown."""
    assert read(f'<a href="{address}">a</a>').markdown == f"[a]({absolute})"


@pytest.mark.parametrize(
    ("base", "absolute"),
    [
        ("/base/", "https://docs.acme.test/base/x"),
        ("https://other.test/a/b", "https://other.test/a/x"),
        ("", "https://docs.acme.test/guide/x"),
        ("http://[bad", "x"),
    ],
)
def test_the_base_of_a_page_counts(base: str, absolute: str) -> None:
    """It is itself resolved against the address of the page."""
    assert read(f'<head><base href="{base}"></head><a href="x">a</a>').markdown == f"[a]({absolute})"


def test_links_are_those_of_the_cleaned_page() -> None:
    """Absolute, without fragments, each once, in the order of the page."""
    page = (
        '<nav><a href="/nav">n</a></nav><a href="/b#1">b</a><a href="/a">a</a><a href="/b#2">b</a>'
        '<a href="#top">t</a><a href="">e</a><a>n</a><a href="mailto:a@b.test">m</a>'
        '<a href="javascript:void(0)">j</a>'
    )

    assert read(page, "html").links == ("https://docs.acme.test/b", "https://docs.acme.test/a", "mailto:a@b.test")


def test_images_are_those_of_the_whole_page() -> None:
    """Of every kind, absolute, each once; data is no address."""
    page = (
        '<head><link rel="shortcut icon" href="/i.ico"><link rel="stylesheet" href="/s.css">'
        '<meta property="og:image" content="/og.png"><meta itemprop="image" content="/item.png"></head>'
        '<nav><img src="a.png" srcset="a.png 1x, a2.png 2x" data-src="/lazy.png"></nav>'
        '<picture><source srcset="/w.webp 100w"></picture><video poster="/p.jpg"></video>'
        "<div style=\"background-image: url('/bg.png')\"></div><img src='data:image/png;base64,AA'>"
    )
    names = "i.ico og.png item.png guide/a.png lazy.png guide/a2.png w.webp p.jpg bg.png".split()  # noqa: SIM905

    assert read(page, "images").images == tuple(f"https://docs.acme.test/{name}" for name in names)


def test_copies_of_elements_inside_one_another_are_limited() -> None:
    """Each level is copied with all that is in it, so the copies can be hundreds of times the page."""
    page = clean(parse_html("<div>" * 400 + "x" * 200_000), Resolver(URL), include=("div",), only_main=False)

    assert len(page.root.html or "") < 25_000_000
    assert page.warnings
