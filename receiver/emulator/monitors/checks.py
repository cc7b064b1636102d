"""One check of a monitor: its pages are scraped, compared, judged, recorded and told."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from receiver.core.clock import Clock, time_limit
from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.ids import IdSource
from receiver.emulator.monitors import table as monitor_tables
from receiver.emulator.monitors.estimates import JUDGED, comparison_mode, credits_of_check, scrape_plan
from receiver.emulator.monitors.findings import ChangeJudge, PageFinding, compare_page, failed_page, hit_finding
from receiver.emulator.monitors.ports import HitFinder, SiteCrawler, SitePage
from receiver.emulator.monitors.recording import CheckRecorder
from receiver.emulator.monitors.records import written
from receiver.emulator.monitors.table import MonitorRow, MonitorTable, RememberedPage
from receiver.emulator.monitors.work import CheckWork
from receiver.emulator.scrapes import Json, ScrapedPage, ScrapePlan, Scraper
from receiver.emulator.state.database import PatientState
from receiver.emulator.wire.plans import MonitorPlan, PagesTarget, QueriesTarget, SiteTarget
from receiver.emulator.working.processes import HeavyWork
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

STALE_AFTER = timedelta(minutes=60)
"""A check in which nothing happens for so long has failed."""
PAGES_AT_ONCE = 4
"""Pages of a check that are scraped at one time. They are recorded in their order."""
_NO_SEARCH = "The emulator was put together without searches, so it cannot search"
_NO_CRAWL = "The emulator was put together without crawls, so sites cannot be checked"
_STALE = f"Nothing happened in the check for {STALE_AFTER // timedelta(minutes=1)} minutes"


class _CheckFailed(Exception):
    """The check ends here. The text says why."""


class CheckRunner:
    """Runs checks. Each result is kept and told before the next page is looked at."""

    def __init__(
        self,
        *,
        state: PatientState,
        recorder: CheckRecorder,
        scraper: Scraper,
        clock: Clock,
        ids: IdSource,
        judge: ChangeJudge,
        work: HeavyWork,
        sites: SiteCrawler | None = None,
        searches: HitFinder | None = None,
    ) -> None:
        self._state = state
        self._table = MonitorTable(state)
        self._recorder = recorder
        self._scraper = scraper
        self._clock = clock
        self._ids = ids
        self._judge = judge
        self._work = work
        self._sites = sites
        self._searches = searches

    async def run(self, monitor: MonitorRow, plan: MonitorPlan, check: Json) -> None:
        """Run a check to its end, from where it is: pages that are done stay as they are.

        It never raises for a page or a target; a crash fails the check.
        """
        work = CheckWork(monitor, plan, check, self._clock.now())
        error: str | None = None
        try:
            if check["status"] == "running":
                await self._go_on(work)
            else:
                await self._begin(work)
            for place, target in enumerate(plan.targets):
                if place not in work.done:
                    await self._target(work, place, target)
                    work.done.append(place)
                    await self._recorder.save(work)
        except _CheckFailed as exc:
            error = str(exc)
        except Exception:
            # The check fails; the scheduler and all other monitors go on.
            log.exception("monitor_check_crashed", extra={"check": work.check_id})
            error = "An unexpected error ended the check"
        await self._end(work, error)

    async def _begin(self, work: CheckWork) -> None:
        estimated = credits_of_check(work.plan)
        work.check |= {"status": "running", "startedAt": written(work.begun_at), "targetResults": []}
        work.check |= {"estimatedCredits": estimated, "reservedCredits": estimated, "billingStatus": "reserved"}
        await self._recorder.save(work)

    async def _go_on(self, work: CheckWork) -> None:
        """Go on with a check that the end of a process cut short."""
        work.begun_at = datetime.fromisoformat(work.check["startedAt"])
        work.go_on(await self._recorder.progress(work.check_id))
        if self._clock.now() - datetime.fromisoformat(work.check["updatedAt"]) > STALE_AFTER:
            raise _CheckFailed(_STALE)

    async def _target(self, work: CheckWork, place: int, target: PagesTarget | SiteTarget | QueriesTarget) -> None:
        results: list[Json] = work.check["targetResults"]
        match target:
            case PagesTarget():
                if place == len(results):
                    results.append({"targetId": target.id, "type": "scrape", "expectedJobs": []})
                await self._listed(work, place, target)
            case SiteTarget():
                if place == len(results):
                    results.append({"targetId": target.id, "type": "crawl", "crawlId": self._ids.new()})
                    await self._recorder.save(work)
                result = results[place]
                result["removedProcessed"] = await self._site(work, target, result["crawlId"])
            case QueriesTarget():
                if place == len(results):
                    results.append({"targetId": target.id, "type": "search", "searchCompleted": False})
                await self._queries(work, place, target, results[place])

    async def _listed(self, work: CheckWork, place: int, target: PagesTarget) -> None:
        """Check the pages of a list of URLs."""
        mode = comparison_mode(target.scrape)
        async with aclosing(self._pages(work, place, target)) as pages:
            async for page in pages:
                await self._page(work, target.id, page, mode)

    async def _pages(self, work: CheckWork, place: int, target: PagesTarget) -> AsyncGenerator[SitePage]:
        """Yield the pages of a list of URLs in its order; some are scraped ahead."""
        plan = scrape_plan(target.scrape)
        turns = asyncio.Semaphore(PAGES_AT_ONCE)
        done = await self._recorder.visited(work.check_id, place)

        async def scrape(position: int, url: str) -> SitePage:
            note = partial(monitor_tables.visit, check_id=work.check_id, target=place, position=position)
            async with turns:
                return SitePage(url, await self._scraped(replace(plan, url=url), work.monitor.team), note)

        left = [(at, url) for at, url in enumerate(target.urls) if at not in done]
        tasks = [asyncio.create_task(scrape(position, url)) for position, url in left]
        try:
            for task in tasks:
                yield await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _scraped(self, plan: ScrapePlan, team: str) -> ScrapedPage | ScrapeFailed:
        try:
            return await self._state.until_written(lambda: self._scraper.scrape(plan, history_team=team))
        except ScrapeFailed as exc:
            return exc

    async def _site(self, work: CheckWork, target: SiteTarget, crawl_id: str) -> bool:
        """Check the pages of a site, and tell whether the pages that are gone were looked for."""
        if self._sites is None:
            work.errors.append(_NO_CRAWL)
            return False
        mode = comparison_mode(target.crawl.scrape)
        plan = replace(target.crawl, scrape=scrape_plan(target.crawl.scrape))
        try:
            async with aclosing(self._sites.pages(plan, team=work.monitor.team, crawl_id=crawl_id)) as pages:
                async for page in pages:
                    await self._page(work, target.id, page, mode)
        except ScrapeFailed as exc:
            work.errors.append(str(exc))
            return False
        if target.id not in work.reached:  # a site that cannot be reached has not removed its pages
            return False
        while gone := await self._table.not_seen(work.monitor_id, target.id, work.check_id):
            for url, scrape_id in gone:
                memory = RememberedPage(scrape_id=scrape_id, is_removed=True, markdown="", data=None)
                finding = PageFinding(url=url, status="removed", previous_scrape_id=scrape_id, memory=memory)
                await self._recorder.page(work, target.id, finding)
        return True

    async def _queries(self, work: CheckWork, place: int, target: QueriesTarget, result: Json) -> None:
        """Record the hits of a target's searches. Those that no check before had are new, and are told."""
        searches = self._searches
        if searches is None:
            result["degradedReason"] = _NO_SEARCH
            work.errors.append(_NO_SEARCH)
            return
        try:
            found = await self._state.until_written(lambda: searches.find(target))
        except CallRefused as exc:
            result["degradedReason"] = exc.error
            work.errors.append(exc.error)
            return
        findings = [
            hit_finding(hit, await self._table.remembered(work.monitor_id, target.id, hit.url))
            for hit in found.hits
        ]
        result |= {
            "searchCompleted": True,
            "resultCount": len(found.hits),
            "matches": sum(finding.status == "new" for finding in findings),
            "searchCredits": found.cost,
        }
        await self._recorder.hits(work, place, target.id, findings, cost=found.cost)

    async def _page(self, work: CheckWork, target_id: str, page: SitePage, mode: str) -> None:
        """Compare, judge and record a page."""
        try:
            async with time_limit(self._clock, STALE_AFTER):
                finding = await self._finding(work, target_id, page, mode)
        except TimeoutError:
            raise _CheckFailed(_STALE) from None
        await self._recorder.page(work, target_id, finding, page.note)

    async def _finding(self, work: CheckWork, target_id: str, page: SitePage, mode: str) -> PageFinding:
        before = await self._table.remembered(work.monitor_id, target_id, page.url)
        if isinstance(page.result, ScrapeFailed):
            return failed_page(page.url, page.result, before)
        finding = await compare_page(self._work, page.url, page.result, before, mode)
        if finding.status == "changed" and work.plan.goal and work.plan.judge_enabled:
            finding.judgment = await self._judge.judge(work.plan.goal, finding)
            finding.cost += JUDGED
        return finding

    async def _end(self, work: CheckWork, error: str | None) -> None:
        """Record how the check ended, and tell of it."""
        nothing_ran = not work.summary["totalPages"] and bool(work.errors)
        has_errors = work.summary["error"] > 0 or bool(work.errors)
        is_failed = error is not None or nothing_ran
        for result in work.check["targetResults"]:
            if result["type"] == "scrape":
                result["expectedJobs"] = work.scrapes.get(result["targetId"], [])
        changes: Json = {
            "status": "failed" if is_failed else "partial" if has_errors else "completed",
            "billingStatus": "confirmed" if work.cost else "released",
            "error": error or "; ".join(dict.fromkeys(work.errors)) or None,
            "notificationStatus": _notifications(work.plan),
        }
        await self._recorder.end(work, changes, partial(self._forget_crawls, work.check))

    def _forget_crawls(self, check: Json, connection: sqlite3.Connection) -> None:
        for result in check["targetResults"]:
            if self._sites is not None and result["type"] == "crawl":
                self._sites.forget(connection, result["crawlId"])


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
