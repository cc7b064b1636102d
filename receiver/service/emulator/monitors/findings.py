"""What a check finds out about one page, by comparing it with the check before."""

import json
from dataclasses import dataclass, field
from typing import Any

from receiver.service.emulator.failures import ScrapeFailed
from receiver.service.emulator.monitors.check_table import RememberedPage
from receiver.service.emulator.monitors.ports import WatchedHit
from receiver.service.emulator.scrapes import Json, ScrapedPage
from receiver.service.emulator.scraping.comparison import changed_paths
from receiver.service.emulator.scraping.diffs import compare_texts
from receiver.service.emulator.working.processes import HeavyWork, WorkLost

_SHOWN = ("title", "contentType", "numPages", "proxyUsed", "postprocessorsUsed", "creditsUsed")


@dataclass(slots=True, kw_only=True)
class PageFinding:
    """One page of a check."""

    url: str
    """Its address, as the target or the crawl has it."""
    status: str
    """`same`, `new`, `changed`, `removed` or `error`."""
    previous_scrape_id: str | None = None
    """The scrape it was compared with."""
    current_scrape_id: str | None = None
    """The scrape of this check."""
    status_code: int | None = None
    """The page's own HTTP status."""
    error: str | None = None
    """Why it could not be checked."""
    metadata: Json = field(default_factory=dict)
    """Some of the page's metadata."""
    text: str | None = None
    """The unified diff, if the page changed and its text is compared."""
    tree: Json | None = None
    """The same as a tree."""
    values: Json | None = None
    """The changed values by their paths, if values are compared."""
    snapshot: Any = None
    """All values that were extracted."""
    judgment: Json | None = None
    """What the judge says of the change."""
    memory: RememberedPage | None = None
    """What the next check compares with; None leaves what is remembered."""
    cost: int = 0
    """Credits."""
    is_told: bool = True
    """Whether an event tells of it."""

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
        """Return the page as its webhook tells it: values may be in the diff, the tree is not."""
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
