"""A topic of the guide as HTML: its headings can be linked, and links between topics stay in the console."""

from markdown_it.token import Token
from markupsafe import Markup

from receiver.core.guide import read_topic, topic_link
from receiver.core.markdown import anchor_of
from receiver.web.console.rendering import MARKDOWN, clean_html

_HEADINGS = ("h2", "h3")


def topic_html(name: str, root: str) -> Markup:
    """Return a topic for a console below `root`. It may import much: call it in a thread."""
    tokens = MARKDOWN.parse(read_topic(name))
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor_of(tokens[at + 1].content))
        for child in token.children or ():
            if child.type == "link_open":
                _lead_inside(child, root)
    return clean_html(MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}), with_id=_HEADINGS)


def _lead_inside(link: Token, root: str) -> None:
    target = topic_link(str(link.attrGet("href")))
    if target is not None:
        link.attrSet("href", f"{root}/guide/{target.topic}" + (f"#{target.anchor}" if target.anchor else ""))
