"""Searches for monitors: the hits of all queries of a target, each page once."""

from receiver.requests.prices import SEARCH
from receiver.service.emulator.monitors.ports import WatchedHit, WatchedSearch
from receiver.service.emulator.search.engine import SearchEngine
from receiver.service.emulator.wire.plans import QueriesTarget
from receiver.service.emulator.wire.searches import SearchPlan

_WINDOWS = {"5m": "qdr:n5", "15m": "qdr:n15", "1h": "qdr:h1", "6h": "qdr:h6", "24h": "qdr:d1", "7d": "qdr:w1"}


class SearchWatcher:
    """Searches for monitors: their HitFinder."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    async def find(self, target: QueriesTarget) -> WatchedSearch:
        """Return what the queries of a target find now. CallRefused has status 408 for one that takes too long."""
        hits: dict[str, WatchedHit] = {}
        cost = 0
        for query in target.queries:
            found = await self._engine.search(
                SearchPlan(
                    query=query,
                    limit=target.max_results,
                    tbs=_WINDOWS.get(target.search_window or "", ""),
                    include_domains=target.include_domains,
                    exclude_domains=target.exclude_domains,
                )
            )
            cost += SEARCH * -(-found.count // 10) + found.check_credits
            for hit in found.web:
                hits.setdefault(hit.url, WatchedHit(hit.url, hit.title, hit.passage))
        return WatchedSearch(tuple(hits.values()), cost)
