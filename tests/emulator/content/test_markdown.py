"""Markdown, element by element (emulator facts, section 8)."""

import pytest

from tests.emulator.content.pages import markdown

CASES = [
    # Text
    ("<p>a \t b\nc</p>", "a b\nc"),
    ("<p>*a* _b_ `c` a|b [d]</p>", r"\*a\* \_b\_ \`c\` a\|b \[d\]"),
    (r"<p>a\b c\ d</p>", r"a\\b c\ d"),
    ("<p># no</p><p>a # b</p>", "\\# no\n\na # b"),
    ("<p>1. no</p><p>in 1. place</p>", "1\\. no\n\nin 1. place"),
    ("<p>- a\n+ b\n* c</p>", "\\- a\n\\+ b\n\\* c"),
    ("<p>> a</p><p>a > b</p>", "\\> a\n\na > b"),
    ("<p>---</p>", r"\-\-\-"),
    ("<span>a</span> <span>b</span>", "ab"),
    # The space rule
    ("<p>a<b>b</b>c</p>", "a **b** c"),
    ("<p>a<b>b</b>, c</p>", "a **b**, c"),
    ("<p><b>a</b> <b>b</b></p>", "**a** **b**"),
    ("<p>a<br><b>b</b></p>", "a\n\n**b**"),
    ("<p>a<!-- c --><b>b</b></p>", "a **b**"),
    ("<p>a<a href='https://x.test/'>b</a><em>c</em></p>", "a [b](https://x.test/) _c_"),
    # Blocks
    ("<div>a<div>b</div>c</div>", "a\n\nb\n\nc"),
    ("<section>a</section><article>b</article><dl><dt>c</dt><dd>d</dd></dl>", "a\n\nb\n\nc\n\nd"),
    ("<div>\n  a\n   b</div>", "a\nb"),
    ("<ul><li>a<p>b</p></li></ul>", "- a\n  b"),
    ("<h2> a\nb # c </h2>", "## a b \\# c"),
    ("<h3> </h3>x", "x"),
    ("<a href='https://x.test/'><h2>a</h2></a>", "[**a**](https://x.test/)"),
    ("a<hr>b", "a\n\n* * *\n\nb"),
    ("<h1>a<hr></h1>", "# a"),
    ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
    ("<blockquote>a<blockquote>b</blockquote></blockquote>", "> a\n>\n> > b"),
    # Inline
    ("<b> a </b><b></b>", "**a**"),
    ("<b>a<br>b</b>", "**a**\n\n**b**"),
    ("<b><strong>a</strong></b><i><em>b</em></i>", "**a** _b_"),
    ("<del>a</del><s></s>", "~~a~~"),
    ("<a>a</a><a href=''>b</a><a href='#'>c</a>", "abc"),
    ("<a href='https://x.test/' title='q \"t\"'>a</a>", '[a](https://x.test/ "q \\"t\\"")'),
    ("<a href='https://x.test/' aria-label='l'><svg></svg></a>", "[l](https://x.test/)"),
    ("<a href='https://x.test/'></a>", ""),
    ("<a href='https://x.test/a.png'><img src='https://x.test/a.png'></a>", "![](https://x.test/a.png)"),
    ("<a href='https://x.test/'>a<br>b</a>", "[a\\\n\\\nb](https://x.test/)"),
    ("<img src='https://x.test/a.png' alt='a\nb' title=t><img>", "![a b](https://x.test/a.png)"),
    ("<iframe src='https://x.test/'>no</iframe>", "[iframe](https://x.test/)"),
    ("<iframe src='data:text/html,%3Cb%3Ea%3C/b%3E'></iframe>", "**a**"),
    ("<textarea>a</textarea><noscript>b</noscript><!--c-->d", "d"),
    # Code
    ("<code>a</code>", "`a`"),
    ("<code>a`b</code>", "``a`b``"),
    ("<code>a``b</code>", "```a``b```"),
    ("<p>a <code>b</code> <code>c</code></p>", "a `b` `c`"),
    ("<p>a<kbd>`b</kbd></p>", "a `` `b``"),
    ("<pre><code class='x language-Py'>a\n  b\n</code></pre>", "```py\na\n  b\n```"),
    ("<pre class='lang-go'>a</pre>", "```go\na\n```"),
    ("<pre>a```b</pre>", "````\na```b\n````"),
    ("<pre><div>a</div><div>b<br>c</div></pre>", "```\na\nb\nc\n```"),
    ("<pre><td class=gutter>1</td><span class='line-numbers'>1</span>a</pre>", "```\n1a\n```"),
    ("<div><pre>a\n  b\n c</pre></div>", "```\na\n  b\n c\n```"),
    # Lists
    ("<ul><li>a</li><li> </li><li>b</li></ul>", "- a\n- b"),
    ("<ol start=9><li>a</li><li>b</li></ol>", "9. a\n10. b"),
    ("<ol>" + "<li>a</li>" * 10 + "</ol>", "\n".join(f"{number:02d}. a" for number in range(1, 11))),
    ("<ol><li>a</li><div></div><li>b</li></ol>", "1. a\n\n3. b"),
    ("<ul><li>a <ul><li>b</li></ul></li></ul>", "- a\n  - b"),
    ("<ol><li>a<ol><li>b</li></ol></li></ol>", "1. a\n   1. b"),
    ("<div><ol><li>a<ol><li>b</li></ol></li></ol></div>", "1. a\n   1. b"),
    ("<ul><li><ul><li>a</li></ul></li></ul>", "- a"),
    ("<div><li>a</li></div>", "a"),
    ("<ul><li><input type=checkbox checked>a</li><li><input type=checkbox>b</li></ul>", "- [x] a\n- [ ] b"),
    ("<div><ul><li>a<pre>b\n  c</pre></li></ul></div>", "- a\n\n  ```\n  b\n    c\n  ```"),
    # Tables
    (
        "<table><tr><th>a</th><th align=right>b</th></tr><tr><td>c</td></tr></table>",
        "| a | b |\n| --- | --: |\n| c |",
    ),
    ("<table><tr><td>a</td><td>b</td></tr></table>", "|     |     |\n| --- | --- |\n| a | b |"),
    ("<table><thead><tr><td align=center>a</td></tr></thead></table>", "| a |\n| :-: |"),
    ("<table><caption>c</caption><tr><th>a</th></tr></table>", "| a |\n| --- |\n\nc"),
    (
        "<table><tr><th>a<br>b</th></tr><tr><td><code>c|d</code></td></tr></table>",
        "| a<br>b |\n| --- |\n| `c\\|d` |",
    ),
]


@pytest.mark.parametrize(("html", "expected"), CASES)
def test_an_element_has_its_markdown(html: str, expected: str) -> None:
    """One rule each."""
    assert markdown(html) == expected


def test_a_base64_image_leaves_its_alt_text() -> None:
    """The address is replaced, unless the plan wants to keep it."""
    page = "<img alt=logo src='data:image/png;base64,AAAA'>"

    assert markdown(page) == "![logo](<Base64-Image-Removed>)"
    assert markdown(page, remove_base64_images=False) == "![logo](data:image/png;base64,AAAA)"


def test_the_link_over_the_navigation_goes() -> None:
    """Also when its address was made absolute."""
    assert markdown("<a href='#main'>Skip to content</a><p>a</p>") == "a"
    assert markdown("<a href='/other'>Skip to content</a>") == "[Skip to content](https://docs.acme.test/other)"


def test_white_space_at_the_ends_goes_and_empty_lines_are_single() -> None:
    """In code as well, as the service does it."""
    assert markdown("<p> a </p><br><br><pre>b\n\n\n\nc</pre> ") == "a\n\n```\nb\n\nc\n```"
