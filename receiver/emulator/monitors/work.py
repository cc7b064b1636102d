"""One check on its way: what it has found so far."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.emulator.monitors.findings import PageFinding
from receiver.emulator.monitors.records import NO_PAGES
from receiver.emulator.monitors.table import CheckProgress, MonitorRow
from receiver.emulator.scrapes import Json
from receiver.emulator.wire.monitors import MonitorPlan


@dataclass(slots=True)
class CheckWork:
    """One check on its way. What is here is what the state has of it."""

    monitor: MonitorRow
    """Whose check it is."""
    plan: MonitorPlan
    """What the monitor looks at."""
    check: Json
    """The record of the check, as the answer shows it."""
    begun_at: datetime
    """When it began."""
    summary: dict[str, int] = field(default_factory=lambda: dict(NO_PAGES))
    """How many pages there were, by their status."""
    cost: int = 0
    """Credits so far."""
    told: set[tuple[str, bool]] = field(default_factory=set)
    """The pages that an event was sent for: URL, and whether it was an error."""
    done: list[int] = field(default_factory=list)
    """The places of the targets that are done."""
    errors: list[str] = field(default_factory=list)
    """Why targets could not be checked at all."""
    scrapes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The scrapes of each target, by its id."""
    reached: set[str] = field(default_factory=set)
    """The ids of the targets of which a page was scraped."""

    @property
    def monitor_id(self) -> str:
        """Whose check it is."""
        return self.monitor.id

    @property
    def check_id(self) -> str:
        """Its id."""
        return str(self.check["id"])

    def go_on(self, progress: CheckProgress) -> None:
        """Take over what was found before the process ended."""
        self.summary, self.cost = dict(self.check["summary"]), self.check["actualCredits"]
        self.done, self.errors = progress.done, progress.errors
        for page in progress.pages:
            self._note(page["targetId"], page["url"], page["status"], page["currentScrapeId"])

    def event_key(self, finding: PageFinding) -> tuple[str, bool] | None:
        """Return what a page's event is known by; None if it has none, or was told of."""
        key = (finding.url, finding.status == "error")
        is_silent = finding.status == "removed" or not finding.is_told or key in self.told
        return None if is_silent else key

    def with_page(self, finding: PageFinding, now: str | None) -> Json:
        """Return the record of the check with one more page."""
        summary = dict(self.summary)
        summary["totalPages"] += 1
        summary[finding.status] += 1
        return {**self.check, "summary": summary, "actualCredits": self.cost + finding.cost, "updatedAt": now}

    def with_hits(self, findings: Sequence[PageFinding], cost: int, now: str | None) -> Json:
        """Return the record of the check with the hits of a target's searches."""
        summary = dict(self.summary)
        for finding in findings:
            summary["totalPages"] += 1
            summary[finding.status] += 1
        return {**self.check, "summary": summary, "actualCredits": self.cost + cost, "updatedAt": now}

    def add(self, target_id: str, finding: PageFinding, check: Json) -> None:
        """Count a page that is kept, with the record of the check that was kept with it."""
        self.check, self.summary, self.cost = check, dict(check["summary"]), check["actualCredits"]
        self._note(target_id, finding.url, finding.status, finding.current_scrape_id)

    def _note(self, target_id: str, url: str, status: str, scrape_id: str | None) -> None:
        if status != "removed":
            self.told.add((url, status == "error"))
        if scrape_id is not None:
            self.scrapes[target_id].append(scrape_id)
            self.reached.add(target_id)
