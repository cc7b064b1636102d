"""One check of a monitor: its pages are scraped, compared, judged, recorded and told."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.clock import Clock, time_limit
from receiver.core.log_lines import event_log
from receiver.service.emulator.contracts import Account, Outgoing
from receiver.service.emulator.failures import CallRefused, ScrapeFailed
from receiver.service.emulator.ids import IdSource
from receiver.service.emulator.monitors.estimates import JUDGED, comparison_mode, credits_of_check, scrape_plan
from receiver.service.emulator.monitors.findings import PageFinding, compare_page, failed_page, hit_finding
from receiver.service.emulator.monitors.judge import ChangeJudge
from receiver.service.emulator.monitors.ports import HitFinder, SiteCrawler, SitePage
from receiver.service.emulator.monitors.records import NO_PAGES, written
from receiver.service.emulator.monitors.table import MonitorRow, MonitorTable, RememberedPage
from receiver.service.emulator.scrapes import Json, ScrapePlan, Scraper
from receiver.service.emulator.wire.plans import MonitorPlan, PagesTarget, QueriesTarget, SiteTarget

log = event_log(__name__)

STALE_AFTER = timedelta(minutes=60)
"""A check in which nothing happens for so long has failed."""
PAGES_AT_ONCE = 4
"""Pages of a check that are scraped at one time. They are recorded in their order."""
_NO_SEARCH = "The emulator was put together without searches, so it cannot search"
_NO_CRAWL = "The emulator was put together without crawls, so sites cannot be checked"


class _CheckFailed(Exception):
    """The check ends here. The text says why."""


@dataclass(slots=True)
class _CheckWork:
    """One check on its way."""

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
    errors: list[str] = field(default_factory=list)
    """Why targets could not be checked at all."""

    @property
    def monitor_id(self) -> str:
        return self.monitor.id

    @property
    def check_id(self) -> str:
        return str(self.check["id"])


class CheckRunner:
    """Runs checks. Each result is kept and told before the next page is looked at."""

    def __init__(
        self,
        *,
        table: MonitorTable,
        scraper: Scraper,
        outgoing: Outgoing,
        account: Account,
        clock: Clock,
        ids: IdSource,
        judge: ChangeJudge,
        sites: SiteCrawler | None = None,
        searches: HitFinder | None = None,
    ) -> None:
        self._table = table
        self._scraper = scraper
        self._outgoing = outgoing
        self._account = account
        self._clock = clock
        self._ids = ids
        self._judge = judge
        self._sites = sites
        self._searches = searches

    async def run(self, monitor: MonitorRow, plan: MonitorPlan, check: Json) -> None:
        """Run a queued check to its end. It never raises for a page or a target; a crash fails the check."""
        work = _CheckWork(monitor, plan, check, self._clock.now())
        estimated = credits_of_check(plan)
        check |= {"status": "running", "startedAt": written(work.begun_at), "targetResults": []}
        check |= {"estimatedCredits": estimated, "reservedCredits": estimated, "billingStatus": "reserved"}
        await self._save(work)
        error: str | None = None
        try:
            for target in plan.targets:
                await self._target(work, target)
        except _CheckFailed as exc:
            error = str(exc)
        except Exception:
            # The check fails; the scheduler and all other monitors go on.
            log.exception("monitor_check_crashed", extra={"check": work.check_id})
            error = "An unexpected error ended the check"
        await self._end(work, error)

    async def fail(self, monitor: MonitorRow, plan: MonitorPlan, check: Json, error: str) -> None:
        """End a check that a process before this one left unfinished."""
        work = _CheckWork(monitor, plan, check, self._clock.now(), dict(check["summary"]))
        await self._end(work, error)

    async def _target(self, work: _CheckWork, target: PagesTarget | SiteTarget | QueriesTarget) -> None:
        result: Json = {"targetId": target.id}
        work.check["targetResults"].append(result)
        match target:
            case PagesTarget():
                result |= {"type": "scrape", "expectedJobs": []}
                plan = scrape_plan(target.scrape)
                mode = comparison_mode(target.scrape)
                async with aclosing(self._pages(work, plan, target.urls)) as pages:
                    async for page in pages:
                        scrape_id = await self._page(work, target.id, page, mode)
                        result["expectedJobs"] += [scrape_id] if scrape_id else []
            case SiteTarget():
                result |= {"type": "crawl", "crawlId": self._ids.new()}
                result["removedProcessed"] = await self._site(work, target)
            case QueriesTarget():
                result |= {"type": "search", "searchCompleted": False}
                await self._queries(work, target, result)

    async def _pages(self, work: _CheckWork, plan: ScrapePlan, urls: tuple[str, ...]) -> AsyncGenerator[SitePage]:
        """Yield the pages of a list of URLs in its order; some are scraped ahead."""
        places = asyncio.Semaphore(PAGES_AT_ONCE)

        async def scrape(url: str) -> SitePage:
            async with places:
                try:
                    return SitePage(
                        url, await self._scraper.scrape(replace(plan, url=url), history_team=work.monitor.team)
                    )
                except ScrapeFailed as exc:
                    return SitePage(url, exc)

        tasks = [asyncio.create_task(scrape(url)) for url in urls]
        try:
            for task in tasks:
                yield await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _site(self, work: _CheckWork, target: SiteTarget) -> bool:
        """Check the pages of a site, and tell whether the pages that are gone were looked for."""
        if self._sites is None:
            work.errors.append(_NO_CRAWL)
            return False
        reached = False
        mode = comparison_mode(target.crawl.scrape)
        plan = replace(target.crawl, scrape=scrape_plan(target.crawl.scrape))
        try:
            async for page in self._sites.pages(plan, team=work.monitor.team):
                reached = reached or not isinstance(page.result, ScrapeFailed)
                await self._page(work, target.id, page, mode)
        except ScrapeFailed as exc:
            work.errors.append(str(exc))
            return False
        if not reached:  # a site that cannot be reached has not removed its pages
            return False
        while gone := await self._table.not_seen(work.monitor_id, target.id, work.check_id):
            for url, scrape_id in gone:
                memory = RememberedPage(scrape_id=scrape_id, is_removed=True, markdown="", data=None)
                finding = PageFinding(url=url, status="removed", previous_scrape_id=scrape_id, memory=memory)
                await self._record(work, target.id, finding)
        return True

    async def _queries(self, work: _CheckWork, target: QueriesTarget, result: Json) -> None:
        """Record the hits of a target's searches. Those that no check before had are new, and are told."""
        if self._searches is None:
            result["degradedReason"] = _NO_SEARCH
            work.errors.append(_NO_SEARCH)
            return
        try:
            found = await self._searches.find(target)
        except CallRefused as exc:
            result["degradedReason"] = exc.error
            work.errors.append(exc.error)
            return
        matches = 0
        for hit in found.hits:
            before = await self._table.remembered(work.monitor_id, target.id, hit.url)
            finding = hit_finding(hit, before)
            await self._record(work, target.id, finding)
            if finding.status == "new":
                matches += 1
                await self._tell(work, finding)
        work.cost += found.cost
        result |= {
            "searchCompleted": True,
            "resultCount": len(found.hits),
            "matches": matches,
            "searchCredits": found.cost,
        }

    async def _page(self, work: _CheckWork, target_id: str, page: SitePage, mode: str) -> str | None:
        """Compare and record a page, tell of it, and return the id of its scrape."""
        try:
            async with time_limit(self._clock, STALE_AFTER):
                before = await self._table.remembered(work.monitor_id, target_id, page.url)
                if isinstance(page.result, ScrapeFailed):
                    finding = failed_page(page.url, page.result, before)
                else:
                    finding = await asyncio.to_thread(compare_page, page.url, page.result, before, mode)
                if finding.status == "changed" and work.plan.goal and work.plan.judge_enabled:
                    finding.judgment = await self._judge.judge(work.plan.goal, finding)
                    finding.cost += JUDGED
        except TimeoutError:
            raise _CheckFailed(
                f"Nothing happened in the check for {STALE_AFTER // timedelta(minutes=1)} minutes"
            ) from None
        await self._record(work, target_id, finding)
        await self._tell(work, finding)
        return finding.current_scrape_id

    async def _tell(self, work: _CheckWork, finding: PageFinding) -> None:
        """Send the event of a page: one for each URL of a check, and one for its error."""
        key = (finding.url, finding.status == "error")
        if key in work.told:
            return
        work.told.add(key)
        await self._outgoing.put(
            work.plan.webhook,
            "monitor.page",
            work.check_id,
            success=finding.status != "error",
            data=[finding.event(work.monitor_id, work.check_id)],
            error=finding.error,
        )

    async def _record(self, work: _CheckWork, target_id: str, finding: PageFinding) -> None:
        work.summary["totalPages"] += 1
        work.summary[finding.status] += 1
        work.cost += finding.cost
        record = finding.record(self._ids.new(), target_id, written(self._clock.now()))
        await self._table.add_page(work.monitor_id, work.check_id, record, finding.memory)

    async def _save(self, work: _CheckWork) -> None:
        work.check |= {"summary": dict(work.summary), "updatedAt": written(self._clock.now())}
        await self._table.update_check(work.check)

    async def _end(self, work: _CheckWork, error: str | None) -> None:
        """Record how the check ended, charge for it, and tell of it."""
        now = self._clock.now()
        nothing_ran = not work.summary["totalPages"] and bool(work.errors)
        is_failed = error is not None or nothing_ran
        has_errors = work.summary["error"] > 0 or bool(work.errors)
        status = "failed" if is_failed else "partial" if has_errors else "completed"
        work.check |= {
            "status": status,
            "finishedAt": written(now),
            "updatedAt": written(now),
            "actualCredits": work.cost,
            "billingStatus": "confirmed" if work.cost else "released",
            "summary": dict(work.summary),
            "error": error or "; ".join(dict.fromkeys(work.errors)) or None,
            "notificationStatus": _notifications(work.plan),
        }
        await self._account.charge(work.monitor.team, work.cost)
        keep_from = now - timedelta(days=work.plan.retention_days)
        await self._table.end_check(work.check, begun_at=work.begun_at, keep_from=keep_from)
        await self._outgoing.put(
            work.plan.webhook,
            "monitor.check.completed",
            work.check_id,
            success=status == "completed",
            data=[
                {
                    "monitorId": work.monitor_id,
                    "checkId": work.check_id,
                    "status": status,
                    "summary": dict(work.summary),
                }
            ],
            error=work.check["error"] if status == "failed" else None,
        )


def _notifications(plan: MonitorPlan) -> Json:
    """Return what became of notifications: webhooks are on their way, and the emulator sends no mail."""
    found: Json = {}
    if plan.webhook is not None:
        found["webhook"] = {
            "attempted": True,
            "success": True,
            "delivered": False,
            "queued": True,
            "skipped": False,
        }
    if (plan.notification.get("email") or {}).get("enabled"):
        found["email"] = {"attempted": False, "success": False, "skipped": True}
    return found
