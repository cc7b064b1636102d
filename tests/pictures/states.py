"""The states of a work item and what changes them, laid out by Graphviz."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from receiver.core.work_states import MOVES, OPERATORS, Cause
from tests.pictures import paper

_POINTS = 72
"""Graphviz measures boxes in inches, and everything else in points: https://graphviz.org/docs/attr-types/point/."""
_MARGIN = 8
_MAIN = {("made", "waiting"), ("waiting", "running"), ("running", "done")}
"""The way of most items is a straight line."""
_ORDER = ("made", "held", "queued", "waiting", "running", "skipped", "done", "dead")
"""Arrows that go back do not decide where a state stands."""
_GOOD, _BAD = {Cause.SUCCEEDED, Cause.SUCCEEDED_BEHIND}, {Cause.FAILED_FOR_GOOD, Cause.LEASE_LOST, Cause.FAILED}


def arrows() -> dict[tuple[str, str, str], list[Cause]]:
    """Return the causes by the state before (`made` if there is none), the state after, and the kind of arrow."""
    found: dict[tuple[str, str, str], list[Cause]] = {}
    for (before, cause), after in MOVES.items():
        found.setdefault((str(before or "made"), str(after), _kind(cause)), []).append(cause)
    return found


def _kind(cause: Cause) -> str:
    if cause in OPERATORS:
        return "operator"
    return "good" if cause in _GOOD else "bad" if cause in _BAD else "plain"


def graph() -> str:
    """Return the table in Graphviz' language: one arrow for all causes of a kind between two states."""
    lines = [
        "digraph states { rankdir=LR; nodesep=0.35; ranksep=0.9;",
        'node [shape=box fixedsize=true width=1.05 height=0.42 label=""];',
        'edge [fontname="sans-serif" fontsize=11];',
        "made [width=0.6]; {rank=same; done; dead}",
    ]
    for (before, after, kind), causes in arrows().items():
        label = "\\n".join(causes)
        along = "weight=9" if (before, after) in _MAIN else f"constraint={str(_is_forward(before, after)).lower()}"
        lines.append(f'{before} -> {after} [class={kind} label="{label}" {along}];')
    return "\n".join([*lines, "}"])


def _is_forward(before: str, after: str) -> bool:
    return _ORDER.index(before) < _ORDER.index(after)


def make(folder: Path) -> None:
    """Write `states.svg` into a folder."""
    done = subprocess.run(("dot", "-Tjson"), input=graph(), stdout=subprocess.PIPE, text=True, check=True)
    (folder / "states.svg").write_text(draw(json.loads(done.stdout)), encoding="utf-8")


def draw(layout: dict[str, Any]) -> str:
    """Return an SVG of what Graphviz has laid out."""
    _, _, width, height = (float(number) for number in layout["bb"].split(","))
    parts = [part for edge in layout["edges"] for part in _arrow(edge, layout["objects"], height)]
    parts += [part for node in layout["objects"] if "pos" in node for part in _state(node, height)]
    title = "The states of a work item. Workers follow the solid arrows, operators the dashed ones."
    return paper.frame(width + 2 * _MARGIN, height + 2 * _MARGIN, title, parts)


def _state(node: dict[str, Any], height: float) -> Iterator[str]:
    x, y = _place(node["pos"], height)
    wide, high = float(node["width"]) * _POINTS, float(node["height"]) * _POINTS
    if node["name"] != "made":
        yield paper.box(x - wide / 2, y - high / 2, wide, high)
    yield paper.text(x, y + 4, node["name"], kind="small" if node["name"] == "made" else "title")


def _arrow(edge: dict[str, Any], nodes: list[dict[str, Any]], height: float) -> Iterator[str]:
    kind = edge["class"]
    before, after = nodes[edge["tail"]]["name"], nodes[edge["head"]]["name"]
    end, *points = (_place(one.removeprefix("e,"), height) for one in edge["pos"].split())
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points[1:])
    yield f"<g><title>{before} → {after}: {', '.join(edge['label'].split(chr(92) + 'n'))}</title>"
    yield f'<path class="arrow {kind}" d="M{points[0][0]:.1f},{points[0][1]:.1f} C{path}"/>'
    yield _tip(points[-1], end, kind)
    x, y = _place(edge["lp"], height)
    lines = edge["label"].split("\\n")
    for number, line in enumerate(lines):
        yield paper.text(x, y + 4 + 13 * (number - (len(lines) - 1) / 2), line, kind="small")
    yield "</g>"


def _tip(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    (x, y), (to_x, to_y) = start, end
    across_x, across_y = (to_y - y) * 0.4, (x - to_x) * 0.4
    corners = ((x + across_x, y + across_y), (to_x, to_y), (x - across_x, y - across_y))
    return f'<polygon class="tip {kind}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}"/>'


def _place(written: str, height: float) -> tuple[float, float]:
    """Read `x,y`, which Graphviz counts from below."""
    x, y = (float(number) for number in written.split(","))
    return x + _MARGIN, height - y + _MARGIN
