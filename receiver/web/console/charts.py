"""Charts as SVG, made here: they need no script, and follow the colours of the page by their classes."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from receiver.core.deliveries import DeliverySummary
from receiver.core.jobs import ends_job, is_page

_WIDTH, _HEIGHT = 720, 120
_LEFT = 4


def bars(points: Sequence[tuple[datetime, int, int]], *, step: timedelta, noun: str) -> Markup:
    """Return bars of counts over time; each point has its moment, what went well, and what failed."""
    most = max((good + bad for _, good, bad in points), default=0)
    total = sum(good + bad for _, good, bad in points)
    minutes = step.total_seconds() / 60
    label = f"{total:,} {noun} in {len(points)} steps of {minutes:.0f} minutes, at most {most:,} in one"
    width = (_WIDTH - 2 * _LEFT) / max(1, len(points))
    drawn = Markup()
    for at, (moment, good, bad) in enumerate(points):
        left = _LEFT + at * width
        tip = f"{moment:%H:%M} UTC: {good:,} {noun}" + (f", {bad:,} failed" if bad else "")
        high = (_HEIGHT - 8) * (good + bad) / most if most else 0
        low = (_HEIGHT - 8) * bad / most if most else 0
        drawn += Markup(
            '<g><title>{}</title><rect class="slot" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>'
        ).format(tip, left, width, _HEIGHT)
        if high:
            drawn += Markup(
                '<rect class="good" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1"/>'
            ).format(left + width * 0.1, _HEIGHT - high, width * 0.8, high - low)
        if low:
            drawn += Markup(
                '<rect class="bad" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1"/>'
            ).format(left + width * 0.1, _HEIGHT - low, width * 0.8, low)
        drawn += Markup("</g>")
    return _svg(drawn, label, _HEIGHT)


def timeline(deliveries: Sequence[DeliverySummary]) -> Markup:
    """Return when the deliveries of a job came: a line each for pages, failed pages, and its other events."""
    if not deliveries:
        return Markup("")
    first = min(one.received_at for one in deliveries)
    last = max(one.received_at for one in deliveries)
    span = max((last - first).total_seconds(), 1.0)
    drawn = Markup()
    for at, name in enumerate(("events", "pages", "failed")):
        drawn += Markup('<text class="label" x="4" y="{}">{}</text>').format(20 + at * 26, name)
    for one in reversed(deliveries):
        left = 70 + (_WIDTH - 80) * (one.received_at - first).total_seconds() / span
        line = (2 if one.success is False else 1) if is_page(one.type) else 0
        tone = "bad" if one.success is False else "end" if ends_job(one.type) else "good"
        drawn += Markup('<a href="{}"><title>{}</title><circle class="{}" cx="{:.1f}" cy="{}" r="4"/></a>').format(
            f"../deliveries/{one.key}", f"{one.type} {one.received_at:%H:%M:%S} UTC", tone, left, 16 + line * 26
        )
    label = f"{len(deliveries):,} deliveries from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
    return _svg(drawn, label, 84)


def _svg(drawn: Markup, label: str, height: int) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, height, label, drawn
    )
