"""Extractions and agents: they find pages, scrape them, and end when nothing is missing or nothing is left."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from typing_extensions import override

from receiver.emulator.failures import CallRefused, ScrapeFailed
from receiver.emulator.jobs.engine import LIFETIME, JobContext, JobEngine, JobRunner, JobSettler
from receiver.emulator.jobs.records import JobEnded, JobKind, JobNotFound, kind_of
from receiver.emulator.jobs.table import add_credits, end_job, note_prepared
from receiver.emulator.research import table
from receiver.emulator.research.choosing import (
    FOUND,
    GIVEN,
    candidates,
    given,
    links_in,
    names_in_schema,
    score_of,
    wanted_words,
    words_of_properties,
)
from receiver.emulator.research.outcome import ResearchFindings
from receiver.emulator.research.table import (
    CandidatePage,
    NextPage,
    ResearchedPage,
    ResearchRecord,
    ResearchResult,
    ResearchState,
    ResearchStep,
)
from receiver.emulator.scrapes import Json, ScrapedPage
from receiver.emulator.search.engine import SearchEngine
from receiver.emulator.state.database import PatientState, StateDatabase, StateUnwritable
from receiver.emulator.webhooks.table import PreparedDelivery
from receiver.emulator.wire.research import ResearchPlan, is_wildcard, wildcard_root
from receiver.emulator.wire.searches import SearchPlan
from receiver.requests import prices

LIST_PAGE = 20
"""How many jobs a listing has."""
MAX_CREDITS_EXCEEDED = "Max credits exceeded"
"""Why an agent fails whose next step would cost too much."""
TOKENS_PER_CREDIT = 15
"""Tokens are the older unit of what an extraction costs."""
_MOST_LEADS = 10
_HITS = 10
"""How many hits a search gives."""
_LISTED = 1_000
"""How many pages below a URL are looked at."""
_GIVEN_SCORES = GIVEN // 2
_NO_SEARCH = "The emulator has no web search here: give urls."


class ListSite(Protocol):
    """Lists the URLs of a site."""

    def __call__(self, url: str, *, team: str, limit: int) -> Awaitable[Sequence[str]]:
        """Return URLs below this one. It raises ScrapeFailed if the address is blocked."""


class PageSearch(Protocol):
    """Searches for pages."""

    def __call__(self, query: str, *, team: str, limit: int) -> Awaitable[Sequence[str]]:
        """Return the URLs of the hits, the best first. ScrapeFailed if there is no answer in time."""


class ResearchSearch(PageSearch):
    """Finds pages in the index and by a SearXNG server, as the search operation does."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    @override
    async def __call__(self, query: str, *, team: str, limit: int) -> Sequence[str]:
        try:
            found = await self._engine.search(SearchPlan(query=query, limit=limit))
        except StateUnwritable:
            raise
        except CallRefused as exc:
            raise ScrapeFailed("SCRAPE_TIMEOUT", str(exc)) from None
        return [hit.url for hit in found.web]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchContext(JobContext):
    """The parts of the emulator that running extractions and agents use."""

    list_site: ListSite
    search: PageSearch | None
    """Finds pages by words; None if nothing can."""
    width: int
    """How many pages of one extraction are scraped at one time."""


class ResearchSettler(JobSettler[ResearchRecord]):
    """Settles the steps and the end of one job. What comes after its end, or twice, changes nothing."""

    def __init__(self, job: ResearchRecord, context: JobContext) -> None:
        super().__init__(job, context)
        self._is_agent = job.kind is JobKind.AGENT
        self._spent = job.credits

    async def prepare(self, pages: Sequence[CandidatePage]) -> None:
        """Note the pages to begin with."""

        def work(connection: sqlite3.Connection) -> None:
            table.add_candidates(connection, self._job.seq, pages)
            note_prepared(connection, self._job.seq)

        await self.write(work)

    async def searched(self, query: str, pages: Sequence[CandidatePage], cost: int) -> None:
        """Note a search with its hits."""
        seq = self._job.seq
        given = {"query": query}
        event = self._action("search", given, cost) if cost else None
        step = self._step("search", given, {"urls": [page.url for page in pages]}) if cost else None

        def work(connection: sqlite3.Connection) -> None:
            if not table.is_running(connection, seq):
                return
            table.add_candidates(connection, seq, pages)
            table.note_searched(connection, seq)
            if step is not None:
                table.add_step(connection, seq, step)
            add_credits(connection, seq, cost)
            self._context.account.charge_within(connection, self._job.team, cost)
            self._context.events.keep(connection, event)

        await self.write(work, event)

    async def settle(self, page: NextPage, finding: ResearchedPage, links: Sequence[CandidatePage]) -> None:
        """Note what became of a page, its cost, the links to follow, and the event of the step."""
        seq = self._job.seq
        given = {"url": page.url, "formats": ["json", "markdown"]}
        event = self._action("scrape", given, finding.credits)
        leads = {link.url: list(link.leads_to) for link in links if link.leads_to}
        outcome: Json = {"found": finding.data is not None, "error": finding.error}
        if leads:
            outcome["linksToMissing"] = dict(list(leads.items())[:_MOST_LEADS])
        step = self._step("scrape", given, outcome)

        def work(connection: sqlite3.Connection) -> None:
            if table.settle_page(connection, seq, page.number, finding):
                table.add_candidates(connection, seq, links)
                if step is not None:
                    table.add_step(connection, seq, step)
                self._context.account.charge_within(connection, self._job.team, finding.credits)
                self._context.events.keep(connection, event)

        await self.write(work, event)

    async def complete(self, result: ResearchResult) -> None:
        """End the job with its result."""
        await self._end(self._context.state, ResearchState.COMPLETED, result)

    async def fail(self, error: str, result: ResearchResult | None = None) -> None:
        """End the job, because it cannot continue."""
        await self._end(self._context.state, ResearchState.FAILED, result, error)

    async def cancel(self) -> bool:
        """End the job for a caller, who does not wait for room on the disk; False if it has ended before."""
        return await self._end(self._context.database, ResearchState.CANCELLED)

    async def _end(
        self,
        database: StateDatabase | PatientState,
        state: ResearchState,
        result: ResearchResult | None = None,
        error: str | None = None,
    ) -> bool:
        seq, now = self._job.seq, self._context.clock.now()
        packed = None if result is None else table.packed_result(result)
        told: list[PreparedDelivery | None] = []

        def work(connection: sqlite3.Connection) -> bool:
            if not end_job(connection, seq, state, now, error=error, result=packed):
                return False
            table.forget_pages(connection, seq)
            data = _data(table.job_by_seq(connection, seq))
            told[:] = [self.event(state, success=state is ResearchState.COMPLETED, data=data, error=error)]
            self._context.events.keep(connection, *told)
            return True

        done = await database.run(work)
        self._context.events.wake(*told)
        return done

    def _action(self, name: str, given: Json, cost: int) -> PreparedDelivery | None:
        """Return the event of a step, which only agents have."""
        self._spent += cost
        if not self._is_agent:
            return None
        return self.event("action", data=[{"creditsUsed": self._spent, "action": name, "input": given}])

    def _step(self, action: str, given: Json, outcome: Json) -> ResearchStep | None:
        """Return the step for the trace, which only agents have."""
        return ResearchStep(self._context.clock.now(), action, given, outcome) if self._is_agent else None


class ResearchRunner(JobRunner):
    """Works on an extraction or an agent."""

    def __init__(self, job: ResearchRecord, context: ResearchContext) -> None:
        self.job = job
        self._plan = job.plan
        self._context = context
        self._state = context.state
        self._settler = ResearchSettler(job, context)
        self._names = names_in_schema(job.plan.schema)
        self._words = wanted_words(job.plan.prompt, self._names)
        self._words_of = words_of_properties(job.plan.schema)
        self._credits = job.credits
        self._searched = job.searched
        self._notes: list[str] = []

    @override
    async def run(self) -> None:
        if not self.job.prepared:
            await self._prepare()
        stopped_by = await (self._work_as_agent() if self.job.kind is JobKind.AGENT else self._scrape_all())
        await self._end(stopped_by)

    @override
    async def fail(self, error: str) -> None:
        await self._settler.fail(error)

    async def _prepare(self) -> None:
        """Note the pages to begin with."""
        plain = [url for url in self._plan.urls if not is_wildcard(url)]
        pages = given(plain)
        for url in self._plan.urls:
            if is_wildcard(url):
                pages += await self._below(url)
        await self._settler.prepare(pages)

    async def _below(self, url: str) -> list[CandidatePage]:
        """Return the pages below a URL, those first that share words with what is wanted."""
        try:
            urls = await self._state.until_written(
                lambda: self._context.list_site(wildcard_root(url), team=self.job.team, limit=_LISTED)
            )
        except ScrapeFailed as exc:
            self._notes.append(f"{url}: {exc}")
            return []
        ordered = sorted(urls, key=lambda one: -score_of(one, "", self._words))
        return given(ordered[: self._plan.max_pages], GIVEN - _LISTED)

    async def _search(self) -> None:
        """Search for pages once, which is a step of an agent."""
        self._searched = True
        query = " ".join((self._plan.prompt or " ".join(self._names)).split())[:500]
        search = self._context.search
        if search is None:
            if not self._plan.urls:
                self._notes.append(_NO_SEARCH)
            await self._settler.searched(query, [], 0)
            return
        try:
            urls = await self._state.until_written(lambda: search(query, team=self.job.team, limit=_HITS))
        except ScrapeFailed as exc:
            self._notes.append(f"The search failed: {exc}")
            await self._settler.searched(query, [], 0)
            return
        self._credits += prices.SEARCH
        await self._settler.searched(query, given(urls, FOUND + _HITS), prices.SEARCH)

    async def _scrape_all(self) -> str | None:
        """Scrape the pages that were found, some of them at one time."""
        if self._searches():
            await self._search()
        while pages := await self._next(self._context.width):
            async with asyncio.TaskGroup() as group:
                for page in pages:
                    group.create_task(self._step(page))
        return None

    async def _work_as_agent(self) -> str | None:
        """Scrape the given pages, then what they lead to, until nothing is missing. Return why it had to stop."""
        while True:
            page = next(iter(await self._next(1)), None)
            over = page is None and not self._searches()
            is_given = page is not None and page.score >= _GIVEN_SCORES
            if over or (not is_given and await self._is_satisfied()):
                return None
            cost = prices.SEARCH if page is None else self._page_price
            if (reason := await self._cannot_pay(cost)) is not None:
                return None if await self._is_satisfied() else reason
            await (self._search() if page is None else self._step(page))

    @property
    def _page_price(self) -> int:
        """What a page costs at least, with the checks of its address and of one it leads to."""
        checks = 0 if self._plan.scrape.threat_protection is None else 2 * prices.URL_CHECK
        return prices.JSON + checks

    async def _is_satisfied(self) -> bool:
        return await asyncio.to_thread((await self._findings()).is_satisfied)

    def _searches(self) -> bool:
        return self._plan.searches and not self._searched

    async def _cannot_pay(self, cost: int) -> str | None:
        most = self._plan.max_credits
        if most is not None and self._credits + cost > most:
            return MAX_CREDITS_EXCEEDED
        team = self.job.team
        if await self._state.until_written(lambda: self._context.account.remaining(team)) < cost:
            return "Insufficient credits"
        return None

    async def _next(self, count: int) -> list[NextPage]:
        """Return the next pages, as long as the job may scrape more."""
        seq, most = self.job.seq, self._plan.max_pages

        def work(connection: Any) -> list[NextPage]:
            left = most - table.count_settled(connection, seq)
            return table.next_pages(connection, seq, min(count, left)) if left > 0 else []

        return await self._state.run(work)

    async def _findings(self) -> ResearchFindings:
        pages = await self._state.run(lambda c: table.findings(c, self.job.seq))
        return ResearchFindings(self._plan, pages)

    async def _step(self, page: NextPage) -> None:
        """Scrape a page, and note what was found there and where its links lead."""
        links: Sequence[CandidatePage] = ()
        try:
            plan = replace(self._plan.scrape, url=page.url, parsers=self._parsers())
            scraped = await self._context.scrape(plan, self.job.team)
        except ScrapeFailed as exc:
            finding = ResearchedPage(page.url, error=str(exc), credits=exc.credits)
        else:
            finding = _finding(page, scraped)
            before = await self._findings() if self._words_of else None
            links = await asyncio.to_thread(self._links, page, scraped, finding, before)
        self._credits += finding.credits
        await self._settler.settle(page, finding, links)

    def _parsers(self) -> tuple[Json, ...]:
        """Return how files are read: a PDF, whose pages cost a credit each, only as far as it can be paid."""
        parsers, most = self._plan.scrape.parsers, self._plan.max_credits
        if most is None:
            return parsers
        pages = max(1, most - self._credits - self._page_price + prices.PAGE)
        return tuple(
            {**one, "maxPages": min(one.get("maxPages", pages), pages)} if one["type"] == "pdf" else one
            for one in parsers
        )

    def _links(
        self, page: NextPage, scraped: ScrapedPage, finding: ResearchedPage, before: ResearchFindings | None
    ) -> list[CandidatePage]:
        external = self._plan.external and page.score >= _GIVEN_SCORES
        if not (self._plan.follows_links or external):
            return []
        links = links_in(str(scraped.document.get("markdown") or ""), scraped.links)
        missing = {}
        if before is not None:
            names = replace(before, pages=[*before.pages, finding]).missing_names(self._words_of)
            missing = {name: self._words_of[name] for name in names}
        return candidates(scraped.url, links, self._words, missing=missing, external=external)

    async def _end(self, stopped_by: str | None) -> None:
        findings = await self._findings()
        if not findings.scraped and stopped_by is None:
            why = next((one.error for one in findings.pages if one.error), None) or " ".join(self._notes)
            await self._settler.fail(f"No page could be scraped. {why or 'No page was found.'}")
            return
        result = await asyncio.to_thread(findings.result, *self._notes)
        if stopped_by is not None:
            await self._settler.fail(stopped_by, result)
        else:
            await self._settler.complete(result)


def _finding(page: NextPage, scraped: ScrapedPage) -> ResearchedPage:
    if scraped.status >= 400:
        return ResearchedPage(page.url, error=f"the page answered {scraped.status}", credits=scraped.credits)
    data = scraped.document.get("json")
    return ResearchedPage(page.url, data, scraped.warning, credits=scraped.credits)


def _data(job: ResearchRecord) -> list[Json]:
    """Return the data of the last event of a job."""
    if job.kind is JobKind.AGENT:
        found = {"data": job.result.data} if job.state is ResearchState.COMPLETED else {}
        return [{"creditsUsed": job.credits, **found}]
    if job.state is not ResearchState.COMPLETED:
        return []
    result: Json = {
        "success": True,
        "data": job.result.data,
        "extractId": job.id,
        "totalUrlsScraped": job.completed,
        "tokensBilled": job.credits * TOKENS_PER_CREDIT,
        "creditsBilled": job.credits,
    }
    if job.plan.show_sources:
        result["sources"] = job.result.sources
    if job.result.warning is not None:
        result["warning"] = job.result.warning
    return [result]


class ResearchEngine(JobEngine[ResearchRecord]):
    """Keeps extractions and agents, and runs them."""

    kinds = (JobKind.EXTRACT, JobKind.AGENT)

    def __init__(self, context: ResearchContext) -> None:
        super().__init__(context)
        self._context = context

    async def start(self, plan: ResearchPlan, team: str) -> ResearchRecord:
        """Start a job. It survives the end of the process from here on, if the state is a file.

        JobNotFound if the team has no such conversation.
        """
        now = self._context.clock.now()
        job = ResearchRecord(
            id=self._context.ids.new(),
            kind=kind_of(plan),
            team=team,
            plan=plan,
            state=ResearchState.PROCESSING,
            created_at=now,
            expires_at=now + LIFETIME,
            thread_id=(plan.thread_id or self._context.ids.new()) if plan.kind == "agent" else "",
        )

        def insert(connection: sqlite3.Connection) -> ResearchRecord:
            if plan.thread_id is None:
                return table.insert_job(connection, job)
            turns = table.thread_turns(connection, team, plan.thread_id)
            if not turns:
                raise JobNotFound("Thread not found")
            return table.insert_job(connection, replace(job, turn=turns + 1))

        return await self._begin(job, insert)

    async def get(self, kind: Literal["extract", "agent"], job_id: str, team: str) -> ResearchRecord:
        """Return a job of a team. Raises JobNotFound, or JobExpired."""
        return await self._find(job_id, team, JobKind(kind))

    async def cancel(self, kind: Literal["extract", "agent"], job_id: str, team: str) -> None:
        """Cancel a job. What is scraped now does not count. Raises JobNotFound, or JobEnded."""
        job = await self.get(kind, job_id, team)
        with self._context.activity.running():
            if not await ResearchSettler(job, self._context).cancel():
                raise JobEnded(f"The {kind} job has already ended")
            self._jobs.stop(job_id)

    async def listing(
        self, kind: Literal["extract", "agent"], team: str, before: datetime | None
    ) -> tuple[list[ResearchRecord], bool]:
        """Return a team's newest jobs that were started before a moment, and whether there are more."""
        jobs = await self._database.run(lambda c: table.jobs_before(c, kind, team, before, LIST_PAGE + 1))
        return jobs[:LIST_PAGE], len(jobs) > LIST_PAGE

    async def steps(self, job: ResearchRecord) -> list[ResearchStep]:
        """Return the steps of an agent in their order."""
        return await self._database.run(lambda c: table.steps(c, job.seq))

    async def thread(self, thread_id: str, team: str) -> list[ResearchRecord]:
        """Return the agents of a conversation in their order. Raises JobNotFound if there is none."""
        jobs = await self._database.run(lambda c: table.jobs_of_thread(c, team, thread_id))
        if not jobs:
            raise JobNotFound("Thread not found")
        return jobs

    @override
    def _read(self, row: sqlite3.Row) -> ResearchRecord:
        return table.job_of(row)

    @override
    def _runner(self, job: ResearchRecord, *, begins: bool = False) -> JobRunner:
        return ResearchRunner(job, self._context)

    @override
    def _forget(self, connection: sqlite3.Connection, expired: list[int], now: datetime) -> None:
        table.forget_steps(connection, expired)
