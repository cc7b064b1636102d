"""Charts as SVG, made here: they need no script, and follow the colours of the page by their classes."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from receiver.core.deliveries import DeliverySummary
from receiver.core.jobs import ends_job, is_page
from receiver.core.text import escape_controls
from receiver.web.console.filters import segment

_WIDTH, _HEIGHT = 720, 96
_LEFT = 4
_HOUR = timedelta(hours=1)


def bars(points: Sequence[tuple[datetime, int]], *, step: timedelta) -> Markup:
    """Return a bar for each point: how many deliveries came in a step of time."""
    most = max((count for _, count in points), default=0)
    total, minutes = sum(count for _, count in points), step.total_seconds() / 60
    width = (_WIDTH - 2 * _LEFT) / max(1, len(points))
    drawn: list[Markup] = []
    for at, (moment, count) in enumerate(points):
        left, high = _LEFT + at * width, max(2.0, _HEIGHT * count / most) if count else 0.0
        drawn.append(Markup("<g><title>{}</title>").format(f"{moment:%d %b %H:%M} UTC: {count:,}"))
        drawn.append(_rectangle("slot", left, 0, width, _HEIGHT))
        if count:
            drawn.append(_rectangle("bar", left + width * 0.12, _HEIGHT - high, width * 0.76, high))
        drawn.append(Markup("</g>"))
    drawn.append(Markup('<line class="ground" x1="0" x2="{}" y1="{}" y2="{}"/>').format(_WIDTH, _HEIGHT, _HEIGHT))
    label = f"{total:,} deliveries, at most {most:,} in {minutes:.0f} minutes"
    return _svg(drawn, label, _HEIGHT + 1, kind="bars") + _axis(len(points) * step, most, minutes)


def attempt_bars(points: Sequence[tuple[datetime, int, int]], *, step: timedelta) -> Markup:
    """Return a bar for each point: how many attempts succeeded in a step, and above them those that failed."""
    most = max((good + bad for _, good, bad in points), default=0)
    minutes = step.total_seconds() / 60
    width = (_WIDTH - 2 * _LEFT) / max(1, len(points))
    drawn: list[Markup] = []
    for at, (moment, good, bad) in enumerate(points):
        left, ground = _LEFT + at * width, float(_HEIGHT)
        drawn.append(
            Markup("<g><title>{}</title>").format(f"{moment:%d %b %H:%M} UTC: {good:,} succeeded, {bad:,} failed")
        )
        drawn.append(_rectangle("slot", left, 0, width, _HEIGHT))
        for kind, count in (("good", good), ("bad", bad)):
            if count:
                high = max(2.0, _HEIGHT * count / most)
                ground -= high
                drawn.append(_rectangle(kind, left + width * 0.12, ground, width * 0.76, high))
        drawn.append(Markup("</g>"))
    drawn.append(Markup('<line class="ground" x1="0" x2="{}" y1="{}" y2="{}"/>').format(_WIDTH, _HEIGHT, _HEIGHT))
    succeeded, failed = sum(good for _, good, _ in points), sum(bad for _, _, bad in points)
    label = f"{succeeded:,} attempts succeeded, {failed:,} failed, at most {most:,} in {minutes:.0f} minutes"
    return _svg(drawn, label, _HEIGHT + 1, kind="bars") + _axis(len(points) * step, most, minutes)


def timeline(deliveries: Sequence[DeliverySummary]) -> Markup:
    """Return when the deliveries of a job came: a line each for pages, failed pages, and its other events."""
    if not deliveries:
        return Markup("")
    first = min(one.received_at for one in deliveries)
    last = max(one.received_at for one in deliveries)
    span = max((last - first).total_seconds(), 1.0)
    drawn: list[Markup] = []
    for at, name in enumerate(("events", "pages", "failed")):
        drawn.append(Markup('<text class="label" x="4" y="{}">{}</text>').format(20 + at * 26, name))
    for one in reversed(deliveries):
        left = 70 + (_WIDTH - 80) * (one.received_at - first).total_seconds() / span
        line = (2 if one.success is False else 1) if is_page(one.type) else 0
        tone = "bad" if one.success is False else "end" if ends_job(one.type) else "good"
        drawn.append(
            Markup('<a href="{}"><title>{}</title><circle class="{}" cx="{:.1f}" cy="{}" r="4"/></a>').format(
                f"../deliveries/{segment(one.key)}",
                f"{escape_controls(one.type)} {one.received_at:%H:%M:%S} UTC",
                tone,
                left,
                16 + line * 26,
            )
        )
    label = f"{len(deliveries):,} deliveries from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
    return _svg(drawn, label, 84, kind="timeline", role="group")  # its marks are links


def _axis(span: timedelta, most: int, minutes: float) -> Markup:
    """Return the texts below a chart. It is stretched to the width of the page, and they must not be."""
    texts = (f"{span / _HOUR:.0f} h ago", f"at most {most:,} in {minutes:.0f} min", "now")
    return Markup('<p class="axis">{}</p>').format(
        Markup("").join(Markup("<span>{}</span>").format(one) for one in texts)
    )


def _rectangle(kind: str, left: float, top: float, width: float, height: float) -> Markup:
    # Numbers and a word of ours: to escape them took half of the time of the first page.
    return Markup(  # noqa: S704
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
    )


def _svg(drawn: Iterable[Markup], label: str, height: int, *, kind: str, role: str = "img") -> Markup:
    stretched = Markup(' preserveAspectRatio="none"') if kind == "bars" else ""
    return Markup('<svg class="chart {}" viewBox="0 0 {} {}"{} role="{}" aria-label="{}">{}</svg>').format(
        kind, _WIDTH, height, stretched, role, label, Markup().join(drawn)
    )
