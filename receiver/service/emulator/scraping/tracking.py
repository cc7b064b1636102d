"""Change tracking: what a page has become since the same team scraped it with the same tag."""

import asyncio
from dataclasses import dataclass
from typing import Any

from receiver.service.emulator.extraction.extractor import Extractor
from receiver.service.emulator.extraction.source import ExtractionSource
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.scrapes import FetchedPage, Json, ScrapePlan
from receiver.service.emulator.scraping.comparison import changed_keys, is_same_text
from receiver.service.emulator.scraping.diffs import diff_pages
from receiver.service.emulator.scraping.extracting import source_of, wish_of
from receiver.service.emulator.scraping.history import EarlierScrape, PageHistory
from receiver.service.emulator.scraping.ports import ReadContent, ReadPage
from receiver.service.emulator.times import wire_time

_GONE = 404


@dataclass(frozen=True, slots=True)
class Tracked:
    """What change tracking says, and what it could not do."""

    value: Json
    """The object `changeTracking` of the answer."""
    warnings: tuple[str, ...] = ()
    """Sentences for the answer."""


class ChangeTracker:
    """Compares a page with its earlier scrape. A fault never fails the scrape: it is a warning."""

    def __init__(self, history: PageHistory, extractor: Extractor, read: ReadPage) -> None:
        self._history = history
        self._extractor = extractor
        self._read = read

    async def track(
        self, plan: ScrapePlan, team: str, page: FetchedPage, content: ReadContent, *, seconds: float
    ) -> Tracked:
        """Return the comparison. `plan` has the format changeTracking; the content has Markdown and raw HTML."""
        earlier = await self._history.earlier(team, plan)
        markdown = content.markdown or ""
        value: Json = {
            "previousScrapeAt": None if earlier is None else wire_time(earlier.scraped_at),
            "changeStatus": await asyncio.to_thread(_status, page.status, earlier, markdown),
            "visibility": "visible",
        }
        if earlier is None or value["changeStatus"] != "changed":
            return Tracked(value)
        options = plan.format("changeTracking") or {}
        warnings: tuple[str, ...] = ()
        if "git-diff" in options.get("modes", ()):
            diff = await asyncio.to_thread(diff_pages, earlier.markdown, markdown)
            value["diff"] = diff.text if plan.diff_as_text else {"text": diff.text, "json": diff.tree}
        if "json" in options.get("modes", ()):
            value["json"], warnings = await self._values(plan, earlier, page, content, options, seconds)
        return Tracked(value, warnings)

    async def _values(
        self,
        plan: ScrapePlan,
        earlier: EarlierScrape,
        page: FetchedPage,
        content: ReadContent,
        options: Json,
        seconds: float,
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the values that differ, each with the earlier and the present one.

        An earlier page of which only the Markdown is kept is compared with the Markdown of this one.
        """
        wish = wish_of(options)
        if earlier.page is None:
            texts = (earlier.markdown, content.markdown or "")
            sources = [ExtractionSource(url=page.url, markdown=text) for text in texts]
        else:
            try:
                before_content = await self._read(earlier.page, plan)
            except ScrapeFailed as exc:
                return None, (f"changeTracking: the earlier page cannot be read: {exc}",)
            sources = [source_of(earlier.page, before_content), source_of(page, content)]
        before, after = [await self._extractor.extract(source, wish, seconds=seconds) for source in sources]
        if before.data is None and after.data is None:
            return None, after.warnings
        return changed_keys(before.data, after.data), after.warnings


def _status(status: int, earlier: EarlierScrape | None, markdown: str) -> str:
    if status == _GONE:
        return "removed"
    if earlier is None:
        return "new"
    return "same" if is_same_text(earlier.markdown, markdown) else "changed"
