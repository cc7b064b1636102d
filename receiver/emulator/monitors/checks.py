"""One check of a monitor: its pages are scraped, compared, judged, and recorded with their events."""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from typing_extensions import override

from receiver.core.clock import time_limit
from receiver.emulator.clock import wire_time
from receiver.emulator.extraction.extractor import Extractor
from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.jobs.engine import JobContext, JobRunner
from receiver.emulator.monitors import table
from receiver.emulator.monitors.findings import (
    ChangeJudge,
    HitFinder,
    PageFinding,
    SiteCrawler,
    SitePage,
    compare_page,
    failed_page,
    hit_finding,
)
from receiver.emulator.monitors.table import NO_PAGES, MonitorRow, MonitorTable, RememberedPage
from receiver.emulator.scrapes import Json, ScrapedPage, ScrapePlan
from receiver.emulator.scraping.document import credits_of
from receiver.emulator.webhooks.table import PreparedDelivery
from receiver.emulator.wire.monitors import MonitorPlan, PagesTarget, PlannedTarget, QueriesTarget, SiteTarget
from receiver.emulator.working.processes import HeavyWork, InThreads
from receiver.requests.prices import SEARCH

STALE_AFTER = timedelta(minutes=60)
"""A check in which nothing happens for so long has failed."""
PAGES_AT_ONCE = 4
"""Pages of a check that are scraped at one time. They are recorded in their order."""
JUDGED = 1
"""Credits for judging a page."""
_NO_SEARCH = "The emulator was put together without searches, so it cannot search"
_NO_CRAWL = "The emulator was put together without crawls, so sites cannot be checked"
_STALE = f"Nothing happened in the check for {STALE_AFTER // timedelta(minutes=1)} minutes"
_CRASHED = "An unexpected error ended the check"


class _CheckFailed(Exception):
    """The check ends here. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext(JobContext):
    """The parts of the emulator that running checks use."""

    judge: ChangeJudge = field(default_factory=lambda: ChangeJudge(Extractor()))
    work: HeavyWork = field(default_factory=InThreads)
    sites: SiteCrawler | None = None
    searches: HitFinder | None = None


@dataclass(slots=True)
class CheckWork:
    """What a check has found so far. What is here is what the state has of it."""

    monitor: MonitorRow
    plan: MonitorPlan
    check: Json
    """The record of the check, as the answer shows it."""
    begun_at: datetime
    summary: dict[str, int] = field(default_factory=lambda: dict(NO_PAGES))
    """How many pages there were, by their status."""
    cost: int = 0
    told: set[tuple[str, bool]] = field(default_factory=set)
    """The pages that have had an event: URL, and whether it was an error."""
    done: list[int] = field(default_factory=list)
    """The places of the targets that are done."""
    errors: list[str] = field(default_factory=list)
    """Why targets could not be checked at all."""
    scrapes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The scrapes of each target, by its id."""

    @property
    def check_id(self) -> str:
        """The id of the check."""
        return str(self.check["id"])

    def resume(self, progress: table.CheckProgress) -> None:
        """Take over what was found before the process ended."""
        self.summary, self.cost = dict(self.check["summary"]), self.check["actualCredits"]
        self.done, self.errors = progress.done, progress.errors
        for page in progress.pages:
            self._note(page["targetId"], page["url"], page["status"], page["currentScrapeId"])

    def has_event(self, finding: PageFinding) -> bool:
        """Return whether a page has an event that was not kept before."""
        key = (finding.url, finding.status == "error")
        return finding.status != "removed" and finding.is_told and key not in self.told

    def with_pages(self, findings: Sequence[PageFinding], cost: int, now: datetime) -> Json:
        """Return the record of the check with more pages."""
        summary = dict(self.summary)
        for finding in findings:
            summary["totalPages"] += 1
            summary[finding.status] += 1
        return {
            **self.check,
            "summary": summary,
            "actualCredits": self.cost + cost,
            "updatedAt": wire_time(now),
        }

    def add(self, target_id: str, findings: Sequence[PageFinding], check: Json) -> None:
        """Count pages that are kept, with the record of the check that was kept with them."""
        self.check, self.summary, self.cost = check, dict(check["summary"]), check["actualCredits"]
        for finding in findings:
            self._note(target_id, finding.url, finding.status, finding.current_scrape_id)

    def _note(self, target_id: str, url: str, status: str, scrape_id: str | None) -> None:
        if status != "removed":
            self.told.add((url, status == "error"))
        if scrape_id is not None:
            self.scrapes[target_id].append(scrape_id)


class CheckRecorder:
    """Writes one check. What one call writes is there after the end of the process as a whole, or not at all."""

    def __init__(self, work: CheckWork, context: CheckContext) -> None:
        self._work = work
        self._context = context

    async def save(self) -> None:
        """Keep the present state of the check, which is the current one of its monitor."""
        work, now = self._work, self._context.clock.now()
        work.check |= {"summary": dict(work.summary), "updatedAt": wire_time(now)}

        def write(connection: sqlite3.Connection) -> None:
            table.update_check(connection, work.check)
            table.set_current(connection, work.check)
            table.end_targets(connection, work.check_id, work.done, work.errors)

        await self._context.state.run(write)

    async def page(
        self,
        target_id: str,
        finding: PageFinding,
        note: Callable[[sqlite3.Connection], bool] = lambda connection: True,
    ) -> None:
        """Keep the result of a page, its price, and its event: one for each URL of a check, and one for its error.

        Nothing happens if `note` says that the page is not to be recorded.
        """
        work, context, now = self._work, self._context, self._context.clock.now()
        event = self._event(finding)
        record = finding.record(context.ids.new(), target_id, wire_time(now))
        check = work.with_pages([finding], finding.cost, now)
        markdown = await asyncio.to_thread(table.packed_markdown, finding.memory)

        def write(connection: sqlite3.Connection) -> bool:
            if not note(connection):
                return False
            table.add_page(connection, check, record, finding.memory, markdown)
            table.update_check(connection, check)
            context.account.charge_within(connection, work.monitor.team, finding.cost)
            context.events.keep(connection, event)
            return True

        if await context.state.run(write):
            work.add(target_id, [finding], check)
            context.events.wake(event)

    async def hits(self, place: int, target_id: str, findings: Sequence[PageFinding], *, cost: int) -> None:
        """Keep all hits of a target's searches with their price and their events, and that the target is done."""
        work, context, now = self._work, self._context, self._context.clock.now()
        check = work.with_pages(findings, cost, now)
        events = [self._event(finding) for finding in findings]
        records = [finding.record(context.ids.new(), target_id, wire_time(now)) for finding in findings]
        texts = [table.packed_markdown(finding.memory) for finding in findings]

        def write(connection: sqlite3.Connection) -> None:
            for finding, record, text in zip(findings, records, texts, strict=True):
                table.add_page(connection, check, record, finding.memory, text)
            table.update_check(connection, check)
            table.end_targets(connection, work.check_id, [*work.done, place], work.errors)
            context.account.charge_within(connection, work.monitor.team, cost)
            context.events.keep(connection, *events)

        await context.state.run(write)
        work.add(target_id, findings, check)
        context.events.wake(*events)

    async def end(self, changes: Json) -> None:
        """Keep how the check ended, with its event, and forget its crawls."""
        work, context, now = self._work, self._context, self._context.clock.now()
        work.check |= {**changes, "finishedAt": wire_time(now), "updatedAt": wire_time(now)}
        status, names = work.check["status"], {"monitorId": work.monitor.id, "checkId": work.check_id}
        event = context.events.prepare(
            work.plan.webhook,
            "monitor.check.completed",
            work.check_id,
            success=status == "completed",
            data=[{**names, "status": status, "summary": dict(work.summary)}],
            error=work.check["error"] if status == "failed" else None,
        )
        keep_from = now - timedelta(days=work.plan.retention_days)

        def write(connection: sqlite3.Connection) -> None:
            table.end_check(connection, work.check, begun_at=work.begun_at, keep_from=keep_from)
            table.forget_work(connection, work.check_id)
            for result in work.check["targetResults"]:
                if context.sites is not None and result["type"] == "crawl":
                    context.sites.forget(connection, result["crawlId"])
            context.events.keep(connection, event)

        await context.state.run(write)
        context.events.wake(event)

    def _event(self, finding: PageFinding) -> PreparedDelivery | None:
        """Return the event of a page; None if it has none, or has had it."""
        work = self._work
        if not work.has_event(finding):
            return None
        return self._context.events.prepare(
            work.plan.webhook,
            "monitor.page",
            work.check_id,
            success=finding.status != "error",
            data=[finding.event(work.monitor.id, work.check_id)],
            error=finding.error,
        )


class CheckRunner(JobRunner):
    """Works on one check. Each result is kept with its event before the next page is looked at."""

    def __init__(self, monitor: MonitorRow, plan: MonitorPlan, check: Json, context: CheckContext) -> None:
        self._work = CheckWork(monitor, plan, check, context.clock.now())
        self._plan = plan
        self._team = monitor.team
        self._context = context
        self._table = MonitorTable(context.state)
        self._recorder = CheckRecorder(self._work, context)

    @override
    async def run(self) -> None:
        work = self._work
        try:
            if work.check["status"] == "running":
                await self._resume()
            else:
                await self._begin()
            for place, target in enumerate(self._plan.targets):
                if place not in work.done:
                    await self._target(place, target)
                    work.done.append(place)
                    await self._recorder.save()
        except _CheckFailed as exc:
            await self._end(str(exc))
        else:
            await self._end(None)

    @override
    async def fail(self, error: str) -> None:
        await self._end(_CRASHED)

    async def _begin(self) -> None:
        estimated = credits_of_check(self._plan)
        self._work.check |= {
            "status": "running",
            "startedAt": wire_time(self._work.begun_at),
            "targetResults": [],
            "estimatedCredits": estimated,
            "reservedCredits": estimated,
            "billingStatus": "reserved",
        }
        await self._recorder.save()

    async def _resume(self) -> None:
        """Continue a check that the end of a process cut short."""
        work = self._work
        work.begun_at = datetime.fromisoformat(work.check["startedAt"])
        work.resume(await self._context.state.run(partial(table.read_progress, check_id=work.check_id)))
        if self._context.clock.now() - datetime.fromisoformat(work.check["updatedAt"]) > STALE_AFTER:
            raise _CheckFailed(_STALE)

    async def _target(self, place: int, target: PagesTarget | SiteTarget | QueriesTarget) -> None:
        results: list[Json] = self._work.check["targetResults"]
        match target:
            case PagesTarget():
                if place == len(results):
                    results.append({"targetId": target.id, "type": "scrape", "expectedJobs": []})
                mode = comparison_mode(target.scrape)
                async with aclosing(self._pages(place, target)) as pages:
                    async for page in pages:
                        await self._page(target.id, page, mode)
            case SiteTarget():
                if place == len(results):
                    crawl_id = self._context.ids.new()
                    results.append({"targetId": target.id, "type": "crawl", "crawlId": crawl_id})
                    await self._recorder.save()
                result = results[place]
                result["removedProcessed"] = await self._site(target, result["crawlId"])
            case QueriesTarget():
                if place == len(results):
                    results.append({"targetId": target.id, "type": "search", "searchCompleted": False})
                await self._queries(place, target, results[place])

    async def _pages(self, place: int, target: PagesTarget) -> AsyncGenerator[SitePage]:
        """Yield the pages of a list of URLs in its order; some are scraped ahead."""
        plan, check_id = scrape_plan(target.scrape), self._work.check_id
        turns = asyncio.Semaphore(PAGES_AT_ONCE)
        done = await self._context.state.run(partial(table.visited, check_id=check_id, target=place))

        async def scrape(position: int, url: str) -> SitePage:
            note = partial(table.visit, check_id=check_id, target=place, position=position)
            async with turns:
                return SitePage(url, await self._scraped(replace(plan, url=url)), note)

        left = [(at, url) for at, url in enumerate(target.urls) if at not in done]
        tasks = [asyncio.create_task(scrape(position, url)) for position, url in left]
        try:
            for task in tasks:
                yield await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _scraped(self, plan: ScrapePlan) -> ScrapedPage | ScrapeFailed:
        try:
            return await self._context.scrape(plan, self._team)
        except ScrapeFailed as exc:
            return exc

    async def _site(self, target: SiteTarget, crawl_id: str) -> bool:
        """Check the pages of a site, and return whether the pages that are gone were looked for."""
        sites, work = self._context.sites, self._work
        if sites is None:
            work.errors.append(_NO_CRAWL)
            return False
        mode = comparison_mode(target.crawl.scrape)
        plan = replace(target.crawl, scrape=scrape_plan(target.crawl.scrape))
        try:
            async with aclosing(sites.pages(plan, team=self._team, crawl_id=crawl_id)) as pages:
                async for page in pages:
                    await self._page(target.id, page, mode)
        except ScrapeFailed as exc:
            work.errors.append(str(exc))
            return False
        if target.id not in work.scrapes:  # a site that cannot be reached has not removed its pages
            return False
        while gone := await self._table.not_seen(work.monitor.id, target.id, work.check_id):
            for url, scrape_id in gone:
                memory = RememberedPage(scrape_id=scrape_id, is_removed=True, markdown="", data=None)
                finding = PageFinding(url=url, status="removed", previous_scrape_id=scrape_id, memory=memory)
                await self._recorder.page(target.id, finding)
        return True

    async def _queries(self, place: int, target: QueriesTarget, result: Json) -> None:
        """Record the hits of a target's searches. Those that no check before had are new, and have an event."""
        searches, work = self._context.searches, self._work
        if searches is None:
            result["degradedReason"] = _NO_SEARCH
            work.errors.append(_NO_SEARCH)
            return
        try:
            found = await self._context.state.until_written(lambda: searches.find(target))
        except CallRefused as exc:
            result["degradedReason"] = exc.error
            work.errors.append(exc.error)
            return
        findings = [
            hit_finding(hit, await self._table.remembered(work.monitor.id, target.id, hit.url))
            for hit in found.hits
        ]
        result |= {
            "searchCompleted": True,
            "resultCount": len(found.hits),
            "matches": sum(finding.status == "new" for finding in findings),
            "searchCredits": found.cost,
        }
        await self._recorder.hits(place, target.id, findings, cost=found.cost)

    async def _page(self, target_id: str, page: SitePage, mode: str) -> None:
        """Compare, judge and record a page."""
        try:
            async with time_limit(self._context.clock, STALE_AFTER):
                finding = await self._finding(target_id, page, mode)
        except TimeoutError:
            raise _CheckFailed(_STALE) from None
        await self._recorder.page(target_id, finding, page.note)

    async def _finding(self, target_id: str, page: SitePage, mode: str) -> PageFinding:
        before = await self._table.remembered(self._work.monitor.id, target_id, page.url)
        if isinstance(page.result, ScrapeFailed):
            return failed_page(page.url, page.result, before)
        finding = await compare_page(self._context.work, page.url, page.result, before, mode)
        if finding.status == "changed" and self._plan.goal and self._plan.judge_enabled:
            finding.judgment = await self._context.judge.judge(self._plan.goal, finding)
            finding.cost += JUDGED
        return finding

    async def _end(self, error: str | None) -> None:
        """Record how the check ended."""
        work = self._work
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
            "notificationStatus": _notifications(self._plan),
        }
        await self._recorder.end(changes)


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


def credits_of_check(plan: MonitorPlan) -> int:
    """Return the most that a check costs if every page changes: a site counts with its limit."""
    return sum(_credits_of_target(target, judged=plan.judge_enabled) for target in plan.targets)


def _credits_of_target(target: PlannedTarget, *, judged: bool) -> int:
    match target:
        case PagesTarget():
            return len(target.urls) * (credits_of(scrape_plan(target.scrape)) + JUDGED * judged)
        case SiteTarget():
            return target.crawl.limit * (credits_of(scrape_plan(target.crawl.scrape)) + JUDGED * judged)
        case _:
            hits = len(target.queries) * target.max_results
            return SEARCH * -(-hits // 10) + JUDGED * judged * hits


def comparison_mode(plan: ScrapePlan) -> str:
    """Return what a target compares: `markdown`, extracted values (`json`), or both (`mixed`)."""
    modes: Any = (plan.format("changeTracking") or {}).get("modes", ())
    if "json" not in modes:
        return "markdown"
    return "mixed" if "git-diff" in modes else "json"


def scrape_plan(plan: ScrapePlan) -> ScrapePlan:
    """Return how a check scrapes: the check compares by itself, so it asks for values in place of a comparison."""
    tracking = plan.format("changeTracking")
    formats = [one for one in plan.formats if one["type"] != "changeTracking"]
    if plan.format("markdown") is None:
        formats.insert(0, {"type": "markdown"})
    if tracking is not None and "json" in tracking.get("modes", ()) and plan.format("json") is None:
        asked = {key: tracking[key] for key in ("schema", "prompt") if tracking.get(key) is not None}
        formats.append({"type": "json", **(asked or {"prompt": "Extract the title and the main values."})})
    return replace(plan, formats=tuple(formats))
