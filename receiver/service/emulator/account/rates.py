"""Rate limits by plan: calls of a team in a minute of the emulator's clock."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.clock import Clock, iso
from receiver.service.emulator.failures import CallRefused

PER_MINUTE: Mapping[str, int] = {
    "scrape": 10,
    "map": 10,
    "crawl": 2,
    "search": 10,
    "extract": 2,
    "browser": 2,
    "browserExecute": 10,
    "crawlStatus": 500,
    "extractStatus": 500,
    "account": 1000,
}
"""Calls of each kind in a minute, before the factor of the plan."""
PLAN_FACTORS: Mapping[str, int] = {"free": 1, "hobby": 10, "standard": 50, "growth": 500}
"""What a plan multiplies these by."""
WINDOW = timedelta(minutes=1)
_MAX_WINDOWS = 10_000


@dataclass(slots=True)
class _RateWindow:
    ends_at: datetime
    """When the next window begins."""
    consumed: int = 0
    """Calls in this window so far."""


class RateLimits:
    """Counts calls by team and kind. The window begins with the first call and lasts a minute.

    Without a plan nothing is limited.
    """

    def __init__(self, clock: Clock, plan: str | None) -> None:
        self._clock = clock
        self._factor = None if plan is None else PLAN_FACTORS[plan]
        self._windows: dict[tuple[str, str], _RateWindow] = {}

    def count(self, team: str, kind: str) -> None:
        """Count a call; CallRefused with status 429 and Retry-After when the window has no place left."""
        if self._factor is None or kind not in PER_MINUTE:
            return
        most = PER_MINUTE[kind] * self._factor
        now = self._clock.now()
        window = self._window(team, kind, now)
        window.consumed += 1
        if window.consumed > most:
            raise _limited(window, most, now)

    def forget_all(self) -> None:
        """Begin every window anew."""
        self._windows.clear()

    def _window(self, team: str, kind: str, now: datetime) -> _RateWindow:
        window = self._windows.get((team, kind))
        if window is None or window.ends_at <= now:
            if len(self._windows) >= _MAX_WINDOWS:
                self._windows = {key: one for key, one in self._windows.items() if one.ends_at > now}
            window = self._windows[team, kind] = _RateWindow(now + WINDOW)
        return window


def _limited(window: _RateWindow, most: int, now: datetime) -> CallRefused:
    seconds = max(1, math.ceil((window.ends_at - now).total_seconds()))
    text = (
        f"Rate limit exceeded. Consumed (req/min): {window.consumed}, Remaining (req/min): 0. "
        f"The plan allows {most}: retry after {seconds}s, resets at {iso(window.ends_at)}"
    )
    return CallRefused(429, text, headers={"Retry-After": str(seconds)})
