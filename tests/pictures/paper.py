"""What all drawings share: colours for light and dark, and the frame of an SVG."""

from html import escape

STYLE = """
.drawing { --ink: #1f2328; --soft: #6e7781; --paper: #ffffff; --box: #f3f5f7;
           --good: #0b7a53; --bad: #b3261e; --operator: #0969da; }
@media (prefers-color-scheme: dark) {
  .drawing { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --box: #1c2330;
             --good: #3fb68b; --bad: #ff8a80; --operator: #6cb6ff; }
}
.drawing text { fill: var(--ink); font: 13px system-ui, sans-serif; }
.drawing .small { font-size: 11px; fill: var(--soft); }
.drawing .title { font-weight: 600; }
.drawing .paper { fill: var(--paper); }
.drawing .box { fill: var(--box); stroke: var(--soft); }
.drawing .arrow { fill: none; stroke: var(--soft); stroke-width: 1.4; }
.drawing .tip { fill: var(--soft); stroke: none; }
.drawing .good { stroke: var(--good); } .drawing .bad { stroke: var(--bad); }
.drawing .operator { stroke: var(--operator); stroke-dasharray: 5 3; }
.drawing .tip.good { fill: var(--good); stroke: none; } .drawing .tip.bad { fill: var(--bad); stroke: none; }
.drawing .tip.operator { fill: var(--operator); stroke: none; }
"""


def frame(width: float, height: float, title: str, parts: list[str]) -> str:
    """Return an SVG of this size with the parts on paper, and a title for those who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f'<rect class="paper" width="{width:g}" height="{height:g}"/>{"".join(parts)}</svg>\n'
    )


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "middle") -> str:
    """Return words at a place."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "") -> str:
    """Return a box with its upper left corner at a place."""
    return f'<rect class="box {kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"/>'
