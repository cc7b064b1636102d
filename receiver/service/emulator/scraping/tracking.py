"""Change tracking: what a page has become since the same team scraped it with the same tag."""

from dataclasses import dataclass
from typing import Any

from receiver.service.emulator.extraction.extractor import Extractor
from receiver.service.emulator.extraction.source import ExtractionSource
from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.scrapes import FetchedPage, Json, ScrapePlan
from receiver.service.emulator.scraping.comparison import changed_keys
from receiver.service.emulator.scraping.diffs import compare_texts
from receiver.service.emulator.scraping.extracting import source_of, wish_of
from receiver.service.emulator.scraping.history import EarlierScrape, PageHistory
from receiver.service.emulator.scraping.ports import ReadContent, ReadPage
from receiver.service.emulator.times import wire_time
from receiver.service.emulator.working.processes import HeavyWork, WorkLost

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

    def __init__(self, history: PageHistory, extractor: Extractor, read: ReadPage, work: HeavyWork) -> None:
        self._history = history
        self._extractor = extractor
        self._read = read
        self._work = work

    async def track(
        self, plan: ScrapePlan, team: str, page: FetchedPage, content: ReadContent, *, seconds: float
    ) -> Tracked:
        """Return the comparison. `plan` has the format changeTracking; the content has Markdown and raw HTML."""
        earlier = await self._history.earlier(team, plan)
        options = plan.format("changeTracking") or {}
        warnings: tuple[str, ...] = ()
        try:
            status, text, tree = await self._comparison(page.status, earlier, content.markdown or "", options)
        except WorkLost as exc:
            # The texts differ, or there would have been nothing to do.
            status, text, tree = "changed", None, None
            warnings = (f"changeTracking: the page cannot be compared with the earlier one: {exc}",)
        value: Json = {
            "previousScrapeAt": None if earlier is None else wire_time(earlier.scraped_at),
            "changeStatus": status,
            "visibility": "visible",
        }
        if earlier is None or status != "changed":
            return Tracked(value)
        if text is not None:
            value["diff"] = text if plan.diff_as_text else {"text": text, "json": tree}
        if "json" in options.get("modes", ()):
            value["json"], found = await self._values(plan, earlier, page, content, options, seconds)
            warnings += found
        return Tracked(value, warnings)

    async def _comparison(
        self, status: int, earlier: EarlierScrape | None, markdown: str, options: Json
    ) -> tuple[str, str | None, Json | None]:
        """Return the status of the page and, if it changed and that was asked for, its difference."""
        if status == _GONE:
            return "removed", None, None
        if earlier is None:
            return "new", None, None
        if earlier.markdown == markdown:
            return "same", None, None
        with_diff = "git-diff" in options.get("modes", ())
        size = len(earlier.markdown) + len(markdown)
        found = await self._work.run(compare_texts, earlier.markdown, markdown, with_diff, size=size)
        return ("same", None, None) if found is None else ("changed", found["text"], found["tree"])

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
