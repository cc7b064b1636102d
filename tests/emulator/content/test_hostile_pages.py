"""Pages that are made to take all time or memory: they are read, or are an error of that page."""

import resource
from collections.abc import Callable

import pytest

from receiver.emulator.content.parsing import DEEPEST, content_root, parse_html
from receiver.emulator.failures import ScrapeFailed
from tests.emulator.content.pages import read

FORMATS = ("markdown", "html", "links", "images")
N = 20_000
READ: dict[str, Callable[[], str]] = {
    "nested": lambda: "<div>" * 50_000 + "deep" + "</div>" * 50_000,
    "nested menus": lambda: '<div class="menu">' * N + "deep",
    "nested main": lambda: '<div class="menu"><p id="main">' * 5_000 + "deep",
    "nested lists": lambda: "<ul><li>x" * N + "deep",
    "copied formats": lambda: (
        "<p>" + "".join(f"<b id={number}>" for number in range(2_000)) + "<p>x" * 2_000 + "deep"
    ),
    "closed formats": lambda: "<p>" + "<b id=1><i id=2>" * 2_000 + "<p>x" * 2_000 + "</i></b>" * 2_000 + "deep",
    "options": lambda: "<select>" + "<option>x" * N + "</select>deep",
    "siblings": lambda: "<i>x</i>" * 100_000 + "deep",
    "images": lambda: "<a href=/x><img src=/y></a> " * N + "deep",
    "a long attribute": lambda: f'<p title="{"x" * 1_000_000}">deep',
    "a long srcset": lambda: f'<img srcset="{"a.png 1x, " * 100_000}">deep',
    "a srcset of commas": lambda: f'<img srcset="{"," * 200_000}">deep',
    "a long style": lambda: f'<p style="background:{"url(" * 100_000}">deep',
    "comments": lambda: "<!--" * N + "-->deep",
    "angles": lambda: "deep" + "<" * 1_000_000,
    "scripts": lambda: "deep" + "<script>" * N,
    "newlines": lambda: "<p>" + "\n" * 1_000_000 + "- deep",
    "spaces": lambda: "<pre>" + " " * 1_000_000 + "deep",
    "marks": lambda: "<p>" + "- " * 200_000 + "*" * 100_000 + "[" * 100_000 + "deep",
    "controls": lambda: "&#0;&#1;\x00\x01\x02deep&#xD800;",
    "frames": lambda: '<iframe src="data:text/html,' * 5 + "deep" + '"></iframe>deep',
    "many metas": lambda: '<meta name="x" content="y">' * N + "<p>deep",
    "table": lambda: "<table>" + "<tr><td>x" * N + "</table>deep",
    "foster parents": lambda: "<table>" + "<b>x<tr>" * 5_000 + "</table>deep",
    "quotes": lambda: "<p>deep" + '<a "' * 1_000,
}
REFUSED: dict[str, Callable[[], str]] = {
    "attributes": lambda: "<p " + " ".join(f"a{number}" for number in range(40_000)) + ">",
    "attributes with angles": lambda: "<p " + " ".join(f'a{number}=">"' for number in range(40_000)) + ">",
    "bodies": lambda: "".join(f"<body a{number}=1>" for number in range(10_000)),
    "tags": lambda: "<b>" * 3_000_001,
    "quoted tags": lambda: '<div "><div ">' * 50_000,
}


@pytest.mark.parametrize("name", READ)
def test_a_hostile_page_is_read(name: str) -> None:
    """Its text is there, and this process has never needed more than a gigabyte and a half."""
    page = read(f"<body>{READ[name]()}", *FORMATS, only_main_content=False)

    assert "deep" in page.markdown
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000


@pytest.mark.parametrize("name", ["nested menus", "nested main"])
def test_cleaning_takes_any_depth(name: str) -> None:
    """All of it is removed, or nothing, and then the whole page is taken."""
    assert "deep" in read(READ[name](), *FORMATS).markdown


@pytest.mark.parametrize("name", REFUSED)
def test_a_page_that_no_parser_could_take_in_is_an_error_of_that_page(name: str) -> None:
    """It says what is wrong with it."""
    with pytest.raises(ScrapeFailed, match=r"The (page|elements)"):
        read(REFUSED[name]())


@pytest.mark.parametrize("tag", ["div", "ul", "blockquote", "x-y", "b", "ul><li"])
def test_trees_are_no_deeper_than_in_browsers(tag: str) -> None:
    """What would be deeper stands beside the deepest."""
    tree = parse_html(f"<{tag}>x" * 20_000)
    depths: dict[int, int] = {}
    for node in content_root(tree).traverse():
        parent = node.parent
        depths[node.mem_id] = depths.get(parent.mem_id, 0) + 1 if parent is not None else 0

    assert max(depths.values()) <= 2 * DEEPEST + 10


def test_script_text_counts_for_nothing() -> None:
    """A page with much HTML in its scripts is no deep page: nothing of it is dropped."""
    page = f'<p>a</p><script>var x = "{"<div>" * 5_000}"</script><p>b</p>'

    assert (parse_html(page).html or "").count("<div>") == 5_000


def test_unclosed_paragraphs_and_items_are_not_deep() -> None:
    """HTML closes them by itself."""
    page = "<ul>" + "<li>x<p>y" * 10_000 + "</ul><table>" + "<tr><td>z" * 5_000 + "</table>"

    tree = parse_html(page)

    assert (len(tree.css("li")), len(tree.css("td"))) == (10_000, 5_000)
