"""The picture of a comparison: `python -m tests.benchmarks.picture FIGURES.json PICTURE.svg`.

FIGURES.json is what `python -m tests.benchmarks.ack --json` writes. A bar is the median of a contender's rounds;
its line goes from the slowest to the fastest round.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tests.benchmarks.ack import Sample, summary

NAMES = {
    "bare": "bare endpoint, stores nothing",
    "ours": "this receiver, intake only",
    "ours+worker": "this receiver, with its worker",
    "per-request": "one aiosqlite commit per request",
    "huey": "FastAPI and Huey on SQLite",
}

_WIDTH = 640
_LEFT, _RIGHT = 230, 530
"""Where bars begin, and where the longest one ends. Their figures stand behind them."""
_BAR, _STEP, _HEADING = 18, 28, 36
_STYLE = """
.speed { --ink: #1f2328; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { .speed { --ink: #e6edf3; --paper: #0d1117; } }
.speed text { fill: var(--ink); font: 13px system-ui, sans-serif; }
.speed .heading { font-weight: 600; font-size: 15px; }
.speed .name { text-anchor: end; }
.speed .paper { fill: var(--paper); }
.speed .spread { stroke: var(--ink); stroke-width: 1.5; }
.speed .other { fill: #8c959f; } .speed .ours { fill: #009e73; }
"""


def draw(figures: Mapping[str, Any]) -> str:
    """Return an SVG with a group of bars for each size of a body, at the highest number of connections."""
    connections = max(one["connections"] for one in figures["acks"])
    samples = [one for one in figures["acks"] if one["connections"] == connections]
    sizes = sorted({one["size"] for one in samples})
    parts: list[str] = []
    top = 0
    for size in sizes:
        heading = f"Acknowledged per second, bodies of {size:,} bytes"
        parts.append(f'<text class="heading" x="16" y="{top + 24}">{heading}</text>')
        rows = list(_bars([one for one in samples if one["size"] == size], top + _HEADING))
        parts += rows
        top += _HEADING + _STEP * len(rows)
    title = f"Acknowledged deliveries per second over {connections} connections"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="speed" viewBox="0 0 {_WIDTH} {top + 12}" role="img">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="paper" width="{_WIDTH}" height="{top + 12}"/>{"".join(parts)}</svg>\n'
    )


def _bars(samples: Sequence[Sample], top: int) -> Iterator[str]:
    scale = (_RIGHT - _LEFT) / max(one["requests_per_second"] for one in samples)
    for place, row in enumerate(summary(samples, "size")):
        name, middle, y = str(row["contender"]), float(str(row["requests/s"])), top + place * _STEP
        rates = [one["requests_per_second"] for one in samples if one["contender"] == name]
        low, high = (_LEFT + scale * rate for rate in (min(rates), max(rates)))
        ratio = "" if name == "bare" or row["ratio"] is None else f" ({row['ratio']:.2f})"
        yield (
            f'<g><text class="name" x="{_LEFT - 8}" y="{y + 14}">{escape(NAMES.get(name, name))}</text>'
            f'<rect class="{"ours" if name.startswith("ours") else "other"}" x="{_LEFT}" y="{y}"'
            f' width="{scale * middle:.1f}" height="{_BAR}"/>'
            f'<line class="spread" x1="{low:.1f}" y1="{y + _BAR / 2}" x2="{high:.1f}" y2="{y + _BAR / 2}"/>'
            f'<text x="{high + 6:.1f}" y="{y + 14}">{middle:,.0f}{ratio}</text></g>'
        )


def main(arguments: Sequence[str]) -> int:
    """Draw one file from the other."""
    if len(arguments) != len(("figures", "picture")):
        sys.stdout.write(str(__doc__))
        return 2
    figures, picture = map(Path, arguments)
    picture.write_text(draw(json.loads(figures.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
