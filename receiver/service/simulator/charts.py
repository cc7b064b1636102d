"""Charts of a report as SVG. A style sheet gives the colours by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import log

from receiver.core.units import MICROSECOND, in_words
from receiver.service.simulator.report import FATES, SECOND_US, SimulationReport
from receiver.service.simulator.scenario import Scenario
from receiver.service.simulator.series import Series

WIDTH, HEIGHT = 440, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 16, 76, 30
_RIGHT_END, _BASE = WIDTH - _RIGHT, HEIGHT - _BOTTOM
_INNER_WIDTH, _INNER_HEIGHT = _RIGHT_END - _LEFT, _BASE - _TOP
MAX_TICKS = 6
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_TIME_STEPS_S: tuple[int, ...] = (
    1,
    5,
    15,
    30,
    _MINUTE,
    5 * _MINUTE,
    10 * _MINUTE,
    20 * _MINUTE,
    30 * _MINUTE,
    _HOUR,
    2 * _HOUR,
)
_TIME_STEPS_S += (6 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY, 30 * _DAY, 365 * _DAY)
_LOG_TICKS_S = (0.001, 0.01, 0.1, 1, 10, _MINUTE, 10 * _MINUTE, _HOUR, 10 * _HOUR, 10 * _DAY, 100 * _DAY)
_LEGEND_GAP, _LEGEND_COLUMNS = 110, 3

Rows = Sequence[tuple[int, Sequence[int]]]

STYLE = """
.picture { --ink: #1f2328; --faint: #d0d7de; --paper: #ffffff; --out: #8c959f; }
@media (prefers-color-scheme: dark) {
  .picture { --ink: #e6edf3; --faint: #3d444d; --paper: #0d1117; --out: #9198a1; }
}
.picture text { fill: var(--ink); font: 13px system-ui, sans-serif; }
.picture .name { font-weight: 600; font-size: 15px; }
.picture .paper { fill: var(--paper); }
.picture .grid { stroke: var(--faint); stroke-width: 1; }
.picture .out { fill: var(--out); opacity: 0.28; }
.picture .edge { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 3; }
.picture .k0 { fill: #009e73; } .picture .k1 { fill: #56b4e9; } .picture .k2 { fill: #2b7bba; }
.picture .k3 { fill: #e69f00; } .picture .k4 { fill: #d5400a; }
.picture .line { fill: none; stroke: #2b7bba; stroke-width: 2; }
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture."""

    title: str
    """The chart's title."""
    sentence: str
    """What the chart shows, for readers who cannot see it."""
    shapes: str
    """SVG elements, WIDTH wide and HEIGHT high."""
    caption: str
    """The title, and what a step of the chart is."""


def svg(charts: Sequence[Chart], *, name: str, style: str = "") -> str:
    """Return charts as one SVG element, one below the other. `name` makes its ids unique on a page."""
    height = HEIGHT * len(charts)
    title = "; ".join(chart.title for chart in charts)
    sentence = " ".join(chart.sentence for chart in charts)
    moved = "".join(
        f'<g transform="translate(0 {place * HEIGHT})">{chart.shapes}</g>' for place, chart in enumerate(charts)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc"><title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-desc">{escape(sentence)}</desc>'
        + (f"<style>{style}</style>" if style else "")
        + f'<rect class="paper" width="{WIDTH}" height="{height}"/>{moved}</svg>\n'
    )


def fates(scenario: Scenario, report: SimulationReport) -> Chart:
    """Return a chart of deliveries over the time of their creation, by fate."""
    sentence = (
        f"{report.delivered:,} deliveries got through and {report.failed:,} failed, over the time of creation."
    )
    return _stacked("Deliveries by fate", sentence, FATES, report.fates, scenario, report)


def waves(scenario: Scenario, report: SimulationReport) -> Chart:
    """Return a chart of attempts over the time of their start, by number."""
    sentence = f"{report.attempts:,} attempts over the time of their start, the retries in waves after the outage."
    return _stacked("Attempts, in waves", sentence, FATES[:-1], report.waves, scenario, report)


def times(report: SimulationReport) -> Chart:
    """Return a chart of the share of deliveries that were delivered within a time."""
    points = [(micros / SECOND_US, passed / report.deliveries) for micros, passed in report.times.curve()]
    low, high = (points[0][0], points[-1][0]) if points else (0.1, 10.0)
    low, high = max(low / 2, 0.001), max(high * 2, 0.01)

    def across(seconds: float) -> float:
        return _LEFT + _INNER_WIDTH * log(max(seconds, low) / low) / log(high / low)

    ticks = [(across(tick), _label(tick)) for tick in _LOG_TICKS_S if low <= tick <= high]
    shares = [(_BASE - _INNER_HEIGHT * share / 100, f"{share} %") for share in (0, 25, 50, 75, 100)]
    path, last = f"M{_LEFT} {_BASE}", 0.0
    for seconds, share in points:
        if share - last >= 0.001 or share == points[-1][1]:
            path += f"H{across(seconds):.1f}V{_BASE - _INNER_HEIGHT * share:.1f}"
            last = share
    line = f'<path class="line" d="{path}H{_RIGHT_END}"/>'
    title = "Time to delivery"
    return Chart(
        title,
        "The share of all deliveries that had got through, over the time since their creation.",
        _name(title) + _axes(ticks, shares) + line,
        f"{title}: share of all deliveries",
    )


def _stacked(
    title: str, sentence: str, kinds: Sequence[str], series: Series, scenario: Scenario, report: SimulationReport
) -> Chart:
    rows = series.rows()
    ends = [outage.end // MICROSECOND for outage in scenario.outages]
    end_us = max([series.width_us * len(rows), report.ended_us, *ends, 1])
    most = max((sum(counts) for _, counts in rows), default=1)
    top = _round_up(most)
    per_us, per_one = _INNER_WIDTH / end_us, _INNER_HEIGHT / top
    bars = "".join(
        f'<path class="k{kind}" d="{_outline(rows, kind, series.width_us, per_us, per_one)}"/>'
        for kind in range(len(kinds))
    )
    windows = [
        (_LEFT + outage.start // MICROSECOND * per_us, _LEFT + outage.end // MICROSECOND * per_us)
        for outage in scenario.outages
    ]
    shaded, edges = "".join(_shade(*window) for window in windows), "".join(_edges(*window) for window in windows)
    caption = f"{title}, in steps of {in_words(series.width_us * MICROSECOND)}"
    axes = _axes(
        _time_ticks(end_us), [(_BASE - _INNER_HEIGHT * part / 4, f"{top * part / 4:,g}") for part in range(5)]
    )
    shapes = _name(caption) + _legend(kinds, bool(scenario.outages)) + shaded + axes + bars + edges
    return Chart(title, sentence, shapes, caption)


def _outline(rows: Rows, kind: int, width_us: int, per_us: float, per_one: float) -> str:
    """Return the path of one kind, on top of the kinds before it. Neighbours of equal height become one shape."""
    path = ""
    levels = [(sum(counts[:kind]), sum(counts[: kind + 1]), start) for start, counts in rows]
    for (bottom, top), group in groupby(levels, key=lambda level: level[:2]):
        starts = [start for _, _, start in group]
        if top > bottom:
            left, right = _LEFT + starts[0] * per_us, _LEFT + (starts[-1] + width_us) * per_us
            path += (
                f"M{left:.1f} {_BASE - top * per_one:.1f}H{right:.1f}V{_BASE - bottom * per_one:.1f}H{left:.1f}z"
            )
    return path


def _shade(start: float, end: float) -> str:
    return f'<rect class="out" x="{start:.1f}" y="{_TOP}" width="{end - start:.1f}" height="{_INNER_HEIGHT}"/>'


def _edges(start: float, end: float) -> str:
    return f'<path class="edge" d="M{start:.1f} {_TOP}V{_BASE}M{end:.1f} {_TOP}V{_BASE}"/>'


def _name(text: str) -> str:
    return f'<text class="name" x="{_LEFT}" y="22">{escape(text)}</text>'


def _legend(kinds: Sequence[str], out: bool) -> str:
    entries = [(f"k{number}", kind) for number, kind in enumerate(kinds)] + ([("out", "outage")] if out else [])
    shapes = ""
    for place, (kind, text) in enumerate(entries):
        row, column = divmod(place, _LEGEND_COLUMNS)
        x, y = _LEFT + column * _LEGEND_GAP, 32 + row * 18
        shapes += f'<rect class="{kind}" x="{x}" y="{y}" width="11" height="11"/>'
        shapes += f'<text x="{x + 16}" y="{y + 10}">{escape(text)}</text>'
    return shapes


def _axes(below: Sequence[tuple[float, str]], beside: Sequence[tuple[float, str]]) -> str:
    lines = "".join(
        f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT_END}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        for y, text in beside
    )
    return lines + "".join(
        f'<path class="grid" d="M{x:.1f} {_BASE}v5"/>'
        f'<text x="{x:.1f}" y="{_BASE + 20}" text-anchor="middle">{text}</text>'
        for x, text in below
    )


def _time_ticks(end_us: int) -> list[tuple[float, str]]:
    """Return positions and labels of the ticks of the time axis."""
    step = next((step for step in _TIME_STEPS_S if end_us <= MAX_TICKS * step * SECOND_US), _TIME_STEPS_S[-1])
    moments = range(0, end_us // SECOND_US + 1, step)
    return [(_LEFT + _INNER_WIDTH * moment * SECOND_US / end_us, _label(moment)) for moment in moments]


def _label(seconds: float) -> str:
    return in_words(round(seconds * SECOND_US) * MICROSECOND)


def _round_up(number: int) -> int:
    """Return the next round number that can be divided by four."""
    size = 4
    while True:
        for round_one in (size, size * 2, size * 5):
            if number <= round_one:
                return round_one
        size *= 10
