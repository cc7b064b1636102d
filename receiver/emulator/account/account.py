"""What a team may use: its credits, its calls in a minute, its pages at one time."""

import asyncio
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from receiver.core.clock import Clock, iso
from receiver.emulator.failures import CallRefused
from receiver.emulator.state.database import StateDatabase

Json = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS team_credits (
    team TEXT PRIMARY KEY,
    remaining INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS used_credits (
    team TEXT NOT NULL,
    month TEXT NOT NULL,
    credits INTEGER NOT NULL,
    PRIMARY KEY (team, month)
) STRICT;
"""
_CRAWL_LIMIT = 10_000
_CRAWLS = frozenset({"/v1/crawl", "/v2/crawl"})
_NEEDS: dict[str, Callable[[Json], int]] = {
    "crawl": lambda body: 1,
    "batch/scrape": lambda body: len(urls) if isinstance(urls := body.get("urls"), list) else 1,
    "extract": lambda body: 20,
    "agent": lambda body: 20,
    "browser": lambda body: 2,
    "scrape": lambda body: 1,
    "map": lambda body: 1,
    "search": lambda body: 1,
    "parse": lambda body: 1,
}
"""The fewest credits by what follows the version in the path. What is not here can begin without any."""
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
PLAN_PAGES: Mapping[str, int] = {"free": 2, "hobby": 5, "standard": 50, "growth": 100}
"""Pages at one time by plan, as the service's price list has them; its specification names none."""
PAGES_WITHOUT_PLAN = 10


@dataclass(frozen=True, slots=True)
class MonthOfCredits:
    """The credits that a team used in a month."""

    start: datetime
    """In UTC."""
    credits: int


class CreditLedger:
    """The account of every team. A team that was never seen has the `initial` credits."""

    def __init__(self, state: StateDatabase, clock: Clock, *, initial: int) -> None:
        self._state = state
        self._clock = clock
        self._at_start = initial
        self.initial = initial
        """What a team has at the start, which is also the credits of its plan."""

    async def remaining(self, team: str) -> int:
        """Return the credits that are left."""
        return await self._state.run(lambda connection: self._remaining(connection, team))

    async def charge(self, team: str, amount: int) -> None:
        """Take an amount of credits off, never below 0. All of it counts as used."""
        if amount > 0:
            await self._state.run(lambda connection: self.charge_within(connection, team, amount))

    def charge_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        """Do what `charge` does, as a part of the transaction that notes what is paid for."""
        if amount <= 0:
            return
        self._set(connection, team, max(0, self._remaining(connection, team) - amount))
        connection.execute(
            "INSERT INTO used_credits (team, month, credits) VALUES (?, ?, ?)"
            " ON CONFLICT (team, month) DO UPDATE SET credits = credits + excluded.credits",
            (team, f"{self._clock.now():%Y-%m}", amount),
        )

    def refund_within(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        """Give credits back as a part of a transaction. They do not count as used in this month."""
        if amount <= 0:
            return
        self._set(connection, team, self._remaining(connection, team) + amount)
        connection.execute(
            "UPDATE used_credits SET credits = max(0, credits - ?) WHERE team = ? AND month = ?",
            (amount, team, f"{self._clock.now():%Y-%m}"),
        )

    def pay_within(self, connection: sqlite3.Connection, team: str, amount: int) -> bool:
        """Do what `charge_within` does if as many credits are left; otherwise do nothing, and return False."""
        if amount > self._remaining(connection, team):
            return False
        self.charge_within(connection, team, amount)
        return True

    async def set_remaining(self, team: str | None, amount: int) -> None:
        """Set what a team has left; without a team, what every team has, also those that come later."""

        def work(connection: sqlite3.Connection) -> None:
            if team is None:
                connection.execute("DELETE FROM team_credits")
            else:
                self._set(connection, team, amount)

        await self._state.run(work)
        if team is None:
            self.initial = amount

    def forget_all(self) -> None:
        """Let every team begin with what it had at the start; its tables are emptied by the caller."""
        self.initial = self._at_start

    async def months(self, team: str) -> list[MonthOfCredits]:
        """Return what the team used, the oldest month first; months without use are left out."""

        def work(connection: sqlite3.Connection) -> list[MonthOfCredits]:
            rows = connection.execute(
                "SELECT month, credits FROM used_credits WHERE team = ? ORDER BY month", (team,)
            )
            return [MonthOfCredits(datetime.fromisoformat(f"{month}-01T00:00:00Z"), used) for month, used in rows]

        return await self._state.run(work)

    def _remaining(self, connection: sqlite3.Connection, team: str) -> int:
        row = connection.execute("SELECT remaining FROM team_credits WHERE team = ?", (team,)).fetchone()
        return self.initial if row is None else int(row[0])

    def _set(self, connection: sqlite3.Connection, team: str, amount: int) -> None:
        connection.execute(
            "INSERT INTO team_credits (team, remaining) VALUES (?, ?)"
            " ON CONFLICT (team) DO UPDATE SET remaining = excluded.remaining",
            (team, amount),
        )


def needed_credits(path: str, body: Json) -> int:
    """Return the fewest credits for a POST to a path such as `/v2/crawl`."""
    needs = _NEEDS.get(path.split("/", 2)[-1])
    return 0 if needs is None else needs(body)


def require_credits(path: str, body: Json, remaining: int) -> None:
    """Refuse with status 402 a POST for which too few credits are left."""
    needed = needed_credits(path, body)
    if needed > remaining:
        raise CallRefused(402, f"Insufficient credits: this request needs {needed}, and {remaining} are left")


def affordable(path: str, body: Json, remaining: int) -> Json:
    """Return the body of a crawl with its limit lowered to the credits that are left, any other as it is."""
    limit = body.get("limit", _CRAWL_LIMIT)
    if path in _CRAWLS and isinstance(limit, int) and limit > remaining:
        return {**body, "limit": remaining}
    return body


@dataclass(slots=True)
class _RateWindow:
    ends_at: datetime
    consumed: int = 0
    """Calls so far."""


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


class TeamSlots:
    """The places of each team for pages that are scraped at one time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(most))

    def of(self, team: str) -> asyncio.Semaphore:
        """Return the places of a team."""
        return self._slots[team]


def pages_at_once(plan: str | None, chosen: int | None) -> int:
    """Return how many pages of a team are scraped at one time: what was chosen, else what the plan has."""
    if chosen is not None:
        return chosen
    return PAGES_WITHOUT_PLAN if plan is None else PLAN_PAGES[plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQueue:
    """The pages of a team that are scraped now, and those that wait."""

    active: int = 0
    waiting: int = 0
    """Pages of jobs that have not begun."""
    last_success: datetime | None = None
    """When a page was scraped last."""


class QueueSource(Protocol):
    """Knows what runs, as the jobs do."""

    async def queue_of(self, team: str) -> TeamQueue:
        """Return what runs for a team now."""
