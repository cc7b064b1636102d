"""Any tree becomes Markdown, in work that grows with its size; a reader of Markdown finds the same text in it."""

import sys
from collections.abc import Callable
from html import escape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser

from receiver.emulator.content.markdown.writer import to_markdown
from receiver.emulator.content.parsing import content_root, parse_html

NAMES = """
    p div section span b i em strong del a ul ol li dl dt dd table thead tbody tr td th caption pre code kbd
    blockquote h1 h3 br hr img input iframe textarea script style noscript template svg title select option x-y
"""
ATTRIBUTES = (
    "",
    ' href="#"',
    ' href="/a b"',
    ' href="" title="t"',
    ' src="data:text/html,%3Cp%3Ex"',
    ' class="gutter lang-x"',
    ' start="7"',
    ' type="checkbox"',
    ' align="left"',
)
tags = st.builds(
    "<{}{}{}>".format, st.sampled_from(["", "", "/"]), st.sampled_from(NAMES.split()), st.sampled_from(ATTRIBUTES)
)
wild = st.lists(
    st.one_of(tags, st.text(max_size=8), st.sampled_from([" ", "\n", "- ", "1. ", "`", "\x01", "\x02"]))
)


@given(wild)
def test_any_page_becomes_markdown(pieces: list[str]) -> None:
    """Whatever order its tags have. What is never content is not in it."""
    text = to_markdown(content_root(parse_html("".join(pieces))))

    assert text == text.strip()
    assert "\x01" not in text


# ---- the same text

words = st.from_regex(r"[a-z]([a-z0-9*_|`\[\]\\]{0,5}[a-z])?", fullmatch=True)
inline = st.lists(
    st.one_of(
        words.map(escape),
        st.builds("<{0}>{1}</{0}>".format, st.sampled_from(["b", "em", "strong", "i"]), words.map(escape)),
        st.builds('<a href="https://x.test/">{}</a>'.format, words.map(escape)),
        st.builds("<code>{}</code>".format, st.from_regex("[a-z*]{1,5}", fullmatch=True)),
    ),
    min_size=1,
    max_size=4,
).map(" ".join)
leaf = st.one_of(
    st.builds("<{0}>{1}</{0}>".format, st.sampled_from(["p", "div", "h1", "h2", "h5", "section"]), inline),
    st.builds("<pre><code>{}</code></pre>".format, words.map(escape)),
    st.builds("<table><tr><th>{}</th><th>{}</th></tr><tr><td>{}</td></tr></table>".format, inline, inline, inline),
    st.builds("<table><tr><td>{}</td></tr></table>".format, inline),
)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Put some blocks into one."""
    blocks = st.lists(inner, min_size=1, max_size=3).map("".join)
    items = st.lists(st.builds("<li>{}</li>".format, inline), min_size=1, max_size=3).map("".join)
    return st.one_of(
        st.builds("<{0}>{1}</{0}>".format, st.sampled_from(["div", "section", "blockquote"]), blocks),
        st.builds("<{0}>{1}</{0}>".format, st.sampled_from(["ul", "ol"]), items),
        st.builds("<ul>{}<li>{}<ul>{}</ul></li></ul>".format, items, inline, items),
    )


def text_of_page(html: str) -> str:
    """Return the letters of a page, without white space."""
    root = content_root(LexborHTMLParser(html))
    return "".join(root.text().split())


def text_of_markdown(text: str) -> str:
    """Return the letters that a reader of Markdown shows, without white space."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return "".join("".join(map(shown, tokens)).split())


def shown(token: Token) -> str:
    """Return the text of a token and of those inside it."""
    if token.type in {"text", "code_inline", "fence", "code_block", "text_special"}:
        return token.content
    return "".join(map(shown, token.children or []))


@given(st.recursive(leaf, grown, max_leaves=8))
def test_a_reader_of_markdown_finds_the_same_text(html: str) -> None:
    """Escapes keep marks from having a meaning, in every block. White space may differ."""
    assert text_of_markdown(to_markdown(content_root(parse_html(html)))) == text_of_page(html)


# ---- linear work

SHAPES: dict[str, Callable[[int], str]] = {
    "paragraphs": lambda size: "<p>some <b>text</b> and <a href='/x'>more</a></p>" * size,
    "nested divisions": lambda size: "<div>a" * size,
    "nested lists": lambda size: "<ul><li>a" * size,
    "nested quotes": lambda size: "<blockquote>a" * size,
    "nested tables": lambda size: "<table><tr><td>a" * size,
    "nested formats": lambda size: "<b><i>a" * size,
    "one list": lambda size: f"<ol>{'<li>a<ul><li>b</ul>' * size}</ol>",
    "one table": lambda size: f"<table>{'<tr><td>a<td>b' * size}</table>",
    "links without text": lambda size: "<a href='/x'><img src='/y'></a> <span></span>" * size,
    "comments": lambda size: "<!-- a --><i>b</i><!-- c -->" * size,
    "wide lists in lists": lambda size: "<ol start=999999999><li>a" * 40 + "<br>y<br>z" * size,
    "lists around code": lambda size: "<ol><li>" * 40 + "<pre>a\nb\n</pre>" * size,
    "wide tables in tables": lambda size: "<table><tr><td>" * 80 + "<td>b" * size,
    "quotes around lines": lambda size: "<blockquote>" * 40 + "<br>y" * size,
    "texts and comments in an item": lambda size: "<ul><li>" + "a<!-- -->" * size,
    "code": lambda size: f"<pre>{'<span>a</span><br>' * size}</pre>",
}


def steps_for(tree: LexborHTMLParser) -> int:
    """Return how many functions are called while a tree is converted, and how many characters are written."""
    steps = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal steps
        steps += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        text = to_markdown(content_root(tree))
    finally:
        sys.setprofile(before)
    return steps + len(text)


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_page_is_about_twice_the_work(shape: str) -> None:
    """Counted in calls, for trees of up to 512 levels or many siblings."""
    once, twice = (steps_for(LexborHTMLParser(SHAPES[shape](size))) for size in (250, 500))

    assert twice < 2.3 * once


PIECES = """
    <ul> <ol> <ol_start=999999999> <li> <li>a </li> </ul> </ol> <div> </div> <blockquote> </blockquote> <b> </b> <i>
    <a_href=/x> </a> <h1> <table><tr><td> <td>b </td></tr></table> <caption> <pre>a\nb\n</pre> <br> <br>y<br>z x <p>
    <code>a\nb</code> <!--_-->
"""
pieces = st.lists(
    st.sampled_from([one.replace("_", " ").replace("\\n", "\n") for one in PIECES.split()]), min_size=1, max_size=5
).map("".join)


@given(pieces, st.sampled_from([1, 10, 40]), pieces)
@example("<ol start=999999999><br>y<br>z<li>a", 10, "<br>y<br>z<li>a<ol start=999999999>")
@example("<table><tr><td>", 40, "<td>b")
@settings(max_examples=50, deadline=None)
def test_any_shape_needs_work_that_grows_with_its_size(around: str, deep: int, inside: str) -> None:
    """What is nested as deep as one likes, and repeated as often: neither the steps nor the result explode."""
    pages = [around * deep + inside * size for size in (200, 400)]
    once, twice = (steps_for(parse_html(page)) for page in pages)

    assert twice < 2.6 * once + 20_000
    assert twice < 60 * len(pages[1]) + 50_000


@pytest.mark.parametrize("tag", ["div", "span", "b", "ul><li", "blockquote", "table><tr><td", "kbd", "section"])
def test_deep_trees_need_no_recursion(tag: str) -> None:
    """50,000 elements inside one another: the text at the end is there, and the result is small."""
    html = f"<{tag}>" * 50_000 + "deep"

    text = to_markdown(content_root(parse_html(html)))

    assert "deep" in text
    assert len(text) < 10_000


@pytest.mark.parametrize("tag", ["div", "blockquote", "ol><li", "b", "em", "h1"])
def test_the_walker_takes_any_depth_itself(tag: str) -> None:
    """Also a tree that is deeper than `parse_html` lets through."""
    root = content_root(LexborHTMLParser(f"<{tag}>" * 3_000 + "deep"))

    assert "deep" in to_markdown(root)
