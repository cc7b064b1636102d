"""Notes the steps and the end of a job, together with the webhook events that tell of them, in one transaction."""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from receiver.emulator.research import table
from receiver.emulator.research.records import (
    CandidatePage,
    NextPage,
    ResearchContext,
    ResearchedPage,
    ResearchRecord,
    ResearchResult,
    ResearchState,
    ResearchStep,
)
from receiver.emulator.webhooks.table import PreparedDelivery

Json = dict[str, Any]

_MOST_LEADS = 10
TOKENS_PER_CREDIT = 15
"""Tokens are the older unit of what an extraction costs."""


class ResearchSettler:
    """Settles one job. What is told after its end, or twice, changes nothing."""

    def __init__(self, job: ResearchRecord, context: ResearchContext) -> None:
        self._job = job
        self._context = context
        self._spent = job.credits

    async def prepare(self, pages: Sequence[CandidatePage]) -> None:
        """Note the pages to begin with."""

        def work(connection: sqlite3.Connection) -> None:
            table.add_candidates(connection, self._job.seq, pages)
            table.note_prepared(connection, self._job.seq)

        await self._context.database.patient.run(work)

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
            table.add_credits(connection, seq, cost)
            self._context.account.charge_within(connection, self._job.team, cost)
            self._context.outbox.keep(connection, event)

        await self._context.database.patient.run(work)
        self._context.outbox.wake(event)

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
                self._context.outbox.keep(connection, event)

        await self._context.database.patient.run(work)
        self._context.outbox.wake(event)

    async def complete(self, result: ResearchResult) -> None:
        """End the job with its result."""
        await self._end(ResearchState.COMPLETED, result)

    async def fail(self, error: str, result: ResearchResult | None = None) -> None:
        """End the job, because it cannot go on."""
        await self._end(ResearchState.FAILED, result, error)

    async def cancel(self) -> bool:
        """End the job, because somebody wants it; False if it has ended before."""
        return await self._end(ResearchState.CANCELLED, None, run=self._context.database.run)

    async def _end(
        self,
        state: ResearchState,
        result: ResearchResult | None,
        error: str | None = None,
        *,
        run: Callable[[Callable[[sqlite3.Connection], bool]], Awaitable[bool]] | None = None,
    ) -> bool:
        now = self._context.clock.now()
        run = run or self._context.database.patient.run
        told: list[PreparedDelivery | None] = []

        def work(connection: sqlite3.Connection) -> bool:
            if not table.end_job(connection, self._job.seq, state, now, result=result, error=error):
                return False
            ended = table.job_by_seq(connection, self._job.seq)
            told[:] = [self._event(state, success=state == ResearchState.COMPLETED, data=_data(ended), error=error)]
            self._context.outbox.keep(connection, *told)
            return True

        done = await run(work)
        self._context.outbox.wake(*told)
        return done

    def _action(self, name: str, given: Json, cost: int) -> PreparedDelivery | None:
        """Return the event of a step; only agents tell of theirs."""
        self._spent += cost
        if self._job.plan.kind != "agent":
            return None
        return self._event("action", data=[{"creditsUsed": self._spent, "action": name, "input": given}])

    def _step(self, action: str, given: Json, outcome: Json) -> ResearchStep | None:
        """Return the step for the trace, which only agents have."""
        is_agent = self._job.plan.kind == "agent"
        return ResearchStep(self._context.clock.now(), action, given, outcome) if is_agent else None

    def _event(
        self, kind: str, *, success: bool = True, data: list[Json] | None = None, error: str | None = None
    ) -> PreparedDelivery | None:
        plan = self._job.plan
        return self._context.outbox.prepare(
            plan.webhook, f"{plan.kind}.{kind}", self._job.id, success=success, data=data, error=error
        )


def _data(job: ResearchRecord) -> list[Json]:
    """Return the data of the last event of a job."""
    if job.plan.kind == "agent":
        found = {"data": job.result.data} if job.state is ResearchState.COMPLETED else {}
        return [{"creditsUsed": job.credits, **found}]
    if job.state is not ResearchState.COMPLETED:
        return []
    result: Json = {
        "success": True,
        "data": job.result.data,
        "extractId": job.id,
        "totalUrlsScraped": job.scraped,
        "tokensBilled": job.credits * TOKENS_PER_CREDIT,
        "creditsBilled": job.credits,
    }
    if job.plan.show_sources:
        result["sources"] = job.result.sources
    if job.result.warning is not None:
        result["warning"] = job.result.warning
    return [result]
