"""The search of extractions and agents: what the search operation finds in the web."""

from collections.abc import Sequence

from receiver.service.emulator.failures import CallRefused, ScrapeFailed
from receiver.service.emulator.search.engine import SearchEngine
from receiver.service.emulator.wire.searches import SearchPlan


class ResearchSearch:
    """Finds pages in the index and by a SearXNG server, as the search operation does: a PageSearch."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    async def __call__(self, query: str, *, team: str, limit: int) -> Sequence[str]:
        """Return the URLs of the hits, the best first. ScrapeFailed if there is no answer in time."""
        try:
            found = await self._engine.search(SearchPlan(query=query, limit=limit))
        except CallRefused as exc:
            raise ScrapeFailed("SCRAPE_TIMEOUT", str(exc)) from None
        return [hit.url for hit in found.web]
