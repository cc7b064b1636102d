"""How many pages of a team are scraped at one time, by the plan."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

PLAN_PAGES: Mapping[str, int] = {"free": 2, "hobby": 5, "standard": 50, "growth": 100}
"""Pages at one time by plan, as the service's price list has them; its specification names none."""
PAGES_WITHOUT_PLAN = 10


class TeamSlots:
    """The places of each team for pages that are scraped at one time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(most))

    def of(self, team: str) -> asyncio.Semaphore:
        """Return the slots of a team."""
        return self._slots[team]


def pages_at_once(plan: str | None, chosen: int | None) -> int:
    """Return how many pages of a team are scraped at one time: what was chosen, else what the plan has."""
    if chosen is not None:
        return chosen
    return PAGES_WITHOUT_PLAN if plan is None else PLAN_PAGES[plan]
