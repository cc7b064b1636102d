"""Templates, how moments, sizes and states look in them, and Markdown as safe HTML."""

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from receiver.core.clock import Clock, iso
from receiver.core.guide import read_topic, topic_link
from receiver.core.text import anchor_of, counted, escape_controls, literal, short_id, short_job_id, shortened
from receiver.core.units import shown_size
from receiver.web.console.filters import segment
from receiver.web.console.gate import path_inside, scope_root

_MILLISECOND, _MINUTE, _HOUR, _DAY = 0.001, 60, 3_600, 86_400
_LEAST_BOUND = timedelta(milliseconds=1)
"""What a sentence says that has "less than" already."""
_TONES = {
    "done": "good", "completed": "good", "on": "good", "succeeded": "good", "accepted": "good",
    "dead": "bad", "failed": "bad", "conflict": "bad", "lost": "bad", "timed_out": "bad",
    "running": "busy", "working": "busy", "open": "busy", "waiting": "busy", "new": "busy", "started": "busy",
    "queued": "quiet", "held": "quiet", "skipped": "quiet", "paused": "warn", "disabled": "warn",
    "cancelled": "warn",
}  # fmt: skip
MAX_MARKDOWN = 32 * 1024
"""Characters of Markdown that are rendered for one delivery; the rest is cut. Brackets take quadratic time."""
# Raw HTML stays text. Links are shown as they are and never followed by the console itself.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").enable("strikethrough")


class PageRenderer:
    """Renders the templates of the console."""

    def __init__(self, clock: Clock, *, version: str) -> None:
        self._clock = clock
        self._environment = Environment(
            loader=PackageLoader("receiver.web.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(version=version)
        self._environment.filters.update(
            ago=self._ago,
            literal=literal,
            moment=_moment,
            size=shown_size,
            tone=lambda word: _TONES.get(str(word), "quiet"),
            short_id=short_id,
            short_job=short_job_id,
            segment=segment,
            clean=lambda text: escape_controls(str(text), keep="\n\t"),
            cut=lambda text, width=200: shortened(escape_controls(str(text)), width),
            titled=_titled,
            number=lambda value: "-" if value is None else f"{value:,}",
            counted=counted,
            bound=lambda length: _duration(None if length is None else max(length, _LEAST_BOUND)),
            duration=_duration,
            share=_share,
            rate=_rate,
            tree=tree,
        )

    def page(
        self, request: Request, template: str, content: Mapping[str, Any], *, status: int = 200
    ) -> HTMLResponse:
        """Return a rendered page. A `content` with HTML has to be Markup already: everything else is escaped."""
        state = request.state
        rendered = self._environment.get_template(template).render(
            **content,
            root=scope_root(request.scope),
            path=path_inside(request.scope),
            query=request.url.query,
            token=state.token,
            read_only=state.read_only,
            signed_in=state.signed_in,
            is_in=state.is_in,
            now=self._clock.now(),
        )
        return HTMLResponse(rendered.encode("utf-8", "backslashreplace"), status)

    def _ago(self, moment: datetime | None) -> Markup:
        """Return a moment as how long ago it was, with its exact time for those who point at it."""
        if moment is None:
            return Markup("-")
        seconds = (self._clock.now() - moment).total_seconds()
        exact = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
        return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
            iso(moment), exact, _relative(seconds)
        )


def safe_markdown(text: str, width: int = MAX_MARKDOWN) -> Markup:
    """Return Markdown from outside as HTML without anything that acts: no scripts, styles, images or forms."""
    return clean_html(MARKDOWN.render(escape_controls(shortened(text, width), keep="\n\t")))


def clean_html(rendered: str, *, with_id: Collection[str] = ()) -> Markup:
    """Return HTML without anything that acts. Tags in `with_id` keep their `id`: never for foreign text."""
    import nh3  # a page of Markdown is rare

    cleaned = nh3.clean(
        rendered,
        tags={
            "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
            "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
        },
        attributes={"a": {"href"}, **{tag: {"id"} for tag in with_id}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )  # fmt: skip
    return Markup(cleaned)  # noqa: S704 - cleaned above


MAX_TREE_NODES = 4_000
MAX_TREE_DEPTH = 60
MAX_TREE_TEXT = 4_000


def tree(value: Any) -> Markup:
    """Return a JSON value as a tree that folds, of bounded size."""
    pieces: list[Markup] = []  # joined once, since each sum of texts copies all of both
    _add_branch(pieces, value, [MAX_TREE_NODES], 0)
    return Markup().join(pieces)


def _add_branch(pieces: list[Markup], value: Any, left: list[int], depth: int) -> None:
    left[0] -= 1
    if left[0] < 0 or depth > MAX_TREE_DEPTH:
        pieces.append(Markup('<span class="cut">…</span>'))
        return
    if not isinstance(value, dict | list) or not value:
        pieces.append(_leaf(value))
        return
    pieces.append(Markup('<ul class="tree">'))
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if left[0] <= 0:
            pieces.append(Markup('<li class="cut">…</li>'))
            break
        label = Markup('<span class="key">{}</span>').format(escape_controls(str(name)))
        if isinstance(inner, dict | list) and inner:
            is_open = " open" if depth < 2 and len(inner) <= 30 else ""
            count = f"{{{len(inner)}}}" if isinstance(inner, dict) else f"[{len(inner)}]"
            head = Markup('<li><details{}><summary>{} <span class="count">{}</span></summary>')
            pieces.append(head.format(is_open, label, count))
            _add_branch(pieces, inner, left, depth + 1)
            pieces.append(Markup("</details></li>"))
        else:
            pieces.append(Markup("<li>{} ").format(label))
            _add_branch(pieces, inner, left, depth + 1)
            pieces.append(Markup("</li>"))
    pieces.append(Markup("</ul>"))


def _leaf(value: Any) -> Markup:
    if isinstance(value, str):
        return Markup('<span class="text">{}</span>').format(
            escape(shortened(escape_controls(value, keep="\n\t"), MAX_TREE_TEXT))
        )
    try:
        written = json.dumps(value)
    except ValueError:  # an integer with more digits than Python writes
        written = "a very large number"
    return Markup('<span class="value">{}</span>').format(shortened(written))


def _titled(outside: object, width: int) -> Markup | str:
    """Return the beginning of a text; of one that is cut, with more of it for those who point at it."""
    text = escape_controls(str(outside))
    if len(text) <= width:
        return text
    return Markup('<span title="{}">{}</span>').format(shortened(text), shortened(text, width))


def _moment(moment: datetime | None) -> Markup:
    if moment is None:
        return Markup("-")
    exact = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso(moment), exact, exact)


def _relative(seconds: float) -> str:
    distance, ending = abs(seconds), "ago" if seconds >= 0 else "from now"
    if distance < 1:
        return "now"
    if distance < _MINUTE:
        return f"{min(distance, _MINUTE - 1):.0f} s {ending}"  # 59.9 s are no minute
    if distance < _HOUR:
        return f"{distance // _MINUTE:.0f} min {ending}"
    if distance < 2 * _DAY:
        return f"{distance // _HOUR:.0f} h {ending}"
    return f"{distance // _DAY:.0f} d {ending}"


def _share(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"


def _rate(per_minute: float) -> str:
    return f"{per_minute:,.0f}" if per_minute >= 10 or per_minute == 0 else f"{per_minute:.2g}"


def _duration(length: timedelta | None) -> str:
    if length is None:
        return "-"
    seconds = length.total_seconds()
    if 0 < seconds < _MILLISECOND:
        return "< 1 ms"
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    days, hours = divmod(hours, 24)
    parts = [f"{days} d" * bool(days), f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)]
    return " ".join(part for part in (*parts, f"{rest} s" * (not days and not hours and bool(rest))) if part)


_HEADINGS = ("h2", "h3")


def topic_html(name: str, root: str) -> Markup:
    """Return a topic of the guide for a console below `root`; call it in a thread, because it may import much.

    Its headings can be linked, and links between topics stay in the console.
    """
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
