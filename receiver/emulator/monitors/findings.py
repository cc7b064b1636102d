"""What a check finds: pages and hits, how each differs from the check before, and whether that matters."""

import itertools
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from receiver.core.text import shortened
from receiver.emulator.extraction.evidence import ExtractionSource
from receiver.emulator.extraction.extractor import Extraction, Extractor, Wish
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.monitors.table import RememberedPage
from receiver.emulator.scrapes import Json, ScrapedPage
from receiver.emulator.scraping.answers import STOP_WORDS, words_of_text
from receiver.emulator.scraping.diffs import changed_paths, compare_texts
from receiver.emulator.wire.jobs import CrawlPlan
from receiver.emulator.wire.monitors import QueriesTarget
from receiver.emulator.working.processes import HeavyWork, WorkLost

_MAX_CHANGE = 50_000
_MAX_CHANGES = 100
_MAX_GOAL = 10_000
_CONFIDENCE = ("high", "medium", "low")
_KINDS = ("added", "removed", "changed")
_SYSTEM = (
    "You judge whether a change of a web page matters for a goal. What you get is the change, not the page: a line "
    "that begins with - was removed, one that begins with + was added."
)
_TEXT = {"type": ["string", "number", "boolean", "null"]}
_CHANGE = {
    "type": "object",
    "properties": {
        "type": {"enum": [*_KINDS]},
        "before": _TEXT,
        "after": _TEXT,
        "reason": _TEXT,
    },
    "required": ["type"],
}
_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "meaningful": {"type": "boolean"},
        "confidence": {"enum": [*_CONFIDENCE]},
        "reason": {"type": "string"},
        "meaningfulChanges": {"type": "array", "items": _CHANGE},
    },
    "required": ["meaningful", "confidence", "reason", "meaningfulChanges"],
}
_BY_RULE = "The page changed. Without a language model, every change counts as meaningful"


@dataclass(frozen=True, slots=True)
class SitePage:
    """One page of a check."""

    url: str
    """Its address, as the target or the crawl has it."""
    result: ScrapedPage | ScrapeFailed
    """The page, or why it could not be scraped."""
    note: Callable[[sqlite3.Connection], bool] = lambda connection: True
    """Notes that the page is done, in the transaction that records it. False: it is not to be recorded."""


class SiteCrawler(Protocol):
    """Crawls sites without making a job of it: no events, no results to ask for."""

    def pages(self, plan: CrawlPlan, *, team: str, crawl_id: str) -> AsyncGenerator[SitePage, None]:
        """Yield the pages of a site as they are scraped; the next one when this one is noted.

        A crawl that was begun before is resumed where it was. ScrapeFailed says that it could not begin.
        """

    def forget(self, connection: sqlite3.Connection, crawl_id: str) -> None:
        """Forget a crawl, as a part of the caller's transaction."""


@dataclass(frozen=True, slots=True)
class WatchedHit:
    """A page that a search found."""

    url: str
    title: str
    passage: str


@dataclass(frozen=True, slots=True)
class WatchedSearch:
    """The hits of a target, each page once, and what the searches cost."""

    hits: tuple[WatchedHit, ...]
    """In the order of the queries."""
    cost: int


class HitFinder(Protocol):
    """Searches for monitors."""

    async def find(self, target: QueriesTarget) -> WatchedSearch:
        """Return what the queries of a target find now."""


_SHOWN = ("title", "contentType", "numPages", "proxyUsed", "postprocessorsUsed", "creditsUsed")


@dataclass(slots=True, kw_only=True)
class PageFinding:
    """One page of a check."""

    url: str
    """As the target or the crawl has it."""
    status: str
    """`same`, `new`, `changed`, `removed` or `error`."""
    previous_scrape_id: str | None = None
    current_scrape_id: str | None = None
    status_code: int | None = None
    """The page's own HTTP status."""
    error: str | None = None
    metadata: Json = field(default_factory=dict)
    text: str | None = None
    """The unified diff, if the page changed and its text is compared."""
    tree: Json | None = None
    """The same as a tree."""
    values: Json | None = None
    """The changed values by their paths, if values are compared."""
    snapshot: Any = None
    """All values that were extracted."""
    judgment: Json | None = None
    memory: RememberedPage | None = None
    """What the next check compares with; None leaves what is remembered."""
    cost: int = 0
    is_told: bool = True

    def record(self, page_id: str, target_id: str, created_at: str | None) -> Json:
        """Return the page as the answer to a check shows it."""
        record = {
            "id": page_id,
            "targetId": target_id,
            "url": self.url,
            "status": self.status,
            "previousScrapeId": self.previous_scrape_id,
            "currentScrapeId": self.current_scrape_id,
            "statusCode": self.status_code,
            "error": self.error,
            "metadata": self.metadata,
            "judgment": self.judgment,
            "diff": self._diff(self.values if self.values is not None else self.tree),
            "createdAt": created_at,
        }
        if self.snapshot is not None:
            record["snapshot"] = {"json": self.snapshot}
        return record

    def event(self, monitor_id: str, check_id: str) -> Json:
        """Return the page as its webhook has it: values may be in the diff, the tree is not."""
        return {
            "monitorId": monitor_id,
            "checkId": check_id,
            "url": self.url,
            "status": self.status,
            "previousScrapeId": self.previous_scrape_id,
            "currentScrapeId": self.current_scrape_id,
            "error": self.error,
            "isMeaningful": None if self.judgment is None else self.judgment["meaningful"],
            "judgment": self.judgment,
            "diff": self._diff(self.values),
        }

    def _diff(self, structure: Json | None) -> Json | None:
        diff: Json = {} if self.text is None else {"text": self.text}
        if structure is not None:
            diff["json"] = structure
        return diff or None


def failed_page(url: str, failure: ScrapeFailed, before: RememberedPage | None = None) -> PageFinding:
    """Return the finding for a page that could not be scraped."""
    return PageFinding(
        url=url,
        status="error",
        previous_scrape_id=None if before is None else before.scrape_id,
        error=str(failure),
        cost=failure.credits,
    )


def hit_finding(hit: WatchedHit, before: RememberedPage | None) -> PageFinding:
    """Return the finding for a hit of a search: it is not scraped, and only its first time matters."""
    return PageFinding(
        url=hit.url,
        status="new" if before is None else "same",
        metadata={
            "title": hit.title,
            "description": hit.passage,
            "searchStatus": "alert" if before is None else "already_seen",
        },
        memory=RememberedPage(scrape_id="", is_removed=False, markdown=hit.passage, data=None),
        is_told=before is None,
    )


async def compare_page(
    work: HeavyWork, url: str, page: ScrapedPage, before: RememberedPage | None, mode: str
) -> PageFinding:
    """Return the finding for a page that was scraped. `mode` says what is compared: markdown, json or mixed."""
    markdown = str(page.document.get("markdown") or "")
    data = page.document.get("json") if mode != "markdown" else None
    metadata = page.document.get("metadata", {})
    finding = PageFinding(
        url=url,
        status="new",
        previous_scrape_id=None if before is None else before.scrape_id,
        current_scrape_id=page.scrape_id,
        status_code=page.status,
        metadata={name: metadata[name] for name in _SHOWN if name in metadata},
        snapshot=data,
        memory=RememberedPage(scrape_id=page.scrape_id, is_removed=False, markdown=markdown, data=data),
        cost=page.credits,
    )
    if before is None or before.is_removed:
        return finding
    texts = ("", "") if mode == "json" else (before.markdown, markdown)
    values = (None, None) if mode == "markdown" else (before.data, data)
    if texts[0] == texts[1]:
        texts = ("", "")
    if texts[0] == texts[1] and mode == "markdown":
        finding.status = "same"
        return finding
    size = sum(map(len, texts)) + sum(len(json.dumps(one)) for one in values)
    try:
        found = await work.run(_differences, *texts, *values, size=size)
    except WorkLost as exc:
        failure = ScrapeFailed("SCRAPE_ALL_ENGINES_FAILED", f"The page could not be compared: {exc}")
        failure.credits = page.credits
        return failed_page(url, failure, before)
    finding.status = "same" if found is None else "changed"
    if found is not None:
        finding.text, finding.tree = found["text"], found["tree"]
        finding.values = found["values"] if mode != "markdown" else None
    return finding


def _differences(old: str, new: str, old_data: Any, new_data: Any) -> Json | None:
    """Return the difference of two texts, and the values that changed; None if nothing did."""
    values = changed_paths(old_data, new_data)
    texts = None if old == new else compare_texts(old, new, True)
    if texts is None and not values:
        return None
    return {**(texts or {"text": None, "tree": None}), "values": values}


class ChangeJudge:
    """Judges whether a change matters for the goal of a monitor, by a model or by rules.

    Its answer always has the form that the service documents.
    """

    def __init__(self, extractor: Extractor) -> None:
        self._extractor = extractor

    async def judge(self, goal: str, finding: PageFinding) -> Json:
        """Return the judgment of a change. Without a model's answer every change matters, with low confidence."""
        values = None if finding.values is None else json.dumps(finding.values, ensure_ascii=False)
        change = "\n\n".join(one for one in (finding.text, values) if one)
        source = ExtractionSource(url=finding.url, markdown=shortened(change, _MAX_CHANGE), data=finding.values)
        wish = Wish(_SCHEMA, f"whether this change matters for the goal: {goal}", _SYSTEM)
        rules = partial(judge_by_rules, goal=goal)
        found = await self._extractor.extract(source, wish, rules=rules)
        judgment, fault = _read(found.data), found.model_fault
        if judgment is None:
            fault = fault or "; ".join(found.warnings) or "the model does not say whether the change is meaningful"
            judgment = _read(rules(source, wish).data) or {}
        if fault is not None:
            judgment["reason"] = f"The model did not judge the change: {fault}. {judgment['reason']}"
        return judgment


def judge_by_rules(source: ExtractionSource, wish: Wish, *, goal: str) -> Extraction:
    """Return that the change matters, and which of its parts have words of the goal. Rules find no more."""
    wanted = set(words_of_text(goal[:_MAX_GOAL])) - STOP_WORDS
    changes: list[Json] = []
    seen: set[str] = set()
    for place, before, after in _changes(source):
        words = wanted.intersection(words_of_text(f"{place} {before or ''} {after or ''}"))
        if words:
            kind = "added" if before is None else "removed" if after is None else "changed"
            told = f"It has words of the goal: {', '.join(sorted(words))}"
            changes.append({"type": kind, "before": before, "after": after, "reason": told})
            seen |= words
    named = f"; it has words of the goal: {', '.join(sorted(seen))}." if seen else "; no word of the goal is in it."
    judgment = {"meaningful": True, "confidence": "low", "reason": _BY_RULE + named, "meaningfulChanges": changes}
    return Extraction(judgment)


def _changes(source: ExtractionSource) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield where something changed, what it was before, and what it is now."""
    for path, one in list((source.data or {}).items())[:_MAX_CHANGES]:
        yield path, _text_of(one["previous"]), _text_of(one["current"])
    if source.data is not None:
        return
    told = (line for line in source.markdown.split("\n") if not line.startswith("\\"))  # no newline at the end
    lines = itertools.dropwhile(lambda line: not line.startswith("@@"), told)
    for is_changed, run in itertools.groupby(lines, key=lambda line: line.startswith(("-", "+"))):
        if is_changed:
            texts = list(run)
            removed = [line[1:] for line in texts if line.startswith("-")]
            added = [line[1:] for line in texts if line.startswith("+")]
            yield from (("", *pair) for pair in itertools.zip_longest(removed, added))


def _text_of(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(answer: Any) -> Json | None:
    """Return a judgment in the form of the service; None if it does not say whether the change matters."""
    if not isinstance(answer, dict) or not isinstance(answer.get("meaningful"), bool):
        return None
    changes = answer.get("meaningfulChanges")
    confidence = answer.get("confidence")
    return {
        "meaningful": answer["meaningful"],
        "confidence": confidence if confidence in _CONFIDENCE else "low",
        "reason": shortened(str(answer.get("reason") or "")),
        "meaningfulChanges": [
            {
                "type": one["type"],
                **{key: None if one.get(key) is None else shortened(str(one[key])) for key in ("before", "after")},
                "reason": shortened(str(one.get("reason") or "")),
            }
            for one in (changes if isinstance(changes, list) else [])[:_MAX_CHANGES]
            if isinstance(one, dict) and one.get("type") in _KINDS
        ],
    }
