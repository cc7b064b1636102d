"""Notes what became of pages, together with the webhook events that tell of it, in one transaction."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from receiver.emulator.jobs import sites, table
from receiver.emulator.jobs.context import JobContext
from receiver.emulator.jobs.following import NO_LINKS, ChosenLinks
from receiver.emulator.jobs.records import (
    CreditsUsedUp,
    JobRecord,
    PageError,
    PageFailed,
    PageOutcome,
    PageScraped,
    WaitingPage,
)
from receiver.emulator.jobs.table import insert_document
from receiver.emulator.json_text import to_json_beside
from receiver.emulator.webhooks.table import PreparedDelivery

Json = dict[str, Any]

_AT_ONCE = 200
"""How many waiting pages of a job fail in one transaction."""


class PageSettler:
    """Settles the pages of one job."""

    def __init__(self, job: JobRecord, context: JobContext) -> None:
        self._job = job
        self._context = context

    async def settle(self, page: WaitingPage, outcome: PageOutcome, links: ChosenLinks = NO_LINKS) -> int:
        """Note the end of a page, its document or error, its cost, the links to follow, and the event.

        Return how many of the links found a place, or were known. Nothing happens for a page that has ended before.
        Raises CreditsUsedUp, and notes nothing, if the team cannot pay for the page.
        """
        document = document_of(outcome) if isinstance(outcome, PageScraped) else None
        content = b"" if document is None else await to_json_beside(document)
        event = self._page_event(page, outcome, content)
        error = self._error(page, outcome) if isinstance(outcome, PageFailed) else None
        blocked = (page.url,) if isinstance(outcome, PageFailed) and outcome.by_robots else ()
        seq = self._job.seq

        def work(connection: sqlite3.Connection) -> int:
            if not table.end_page(connection, seq, page.number):
                return 0
            if isinstance(outcome, PageFailed):
                table.count_failed(connection, seq, page.number, error)
                table.add_credits(connection, seq, outcome.credits)
                self._context.account.charge_within(connection, self._job.team, outcome.credits)
            elif outcome.final_key is not None and not table.take_key(connection, seq, outcome.final_key):
                table.count_failed(connection, seq, page.number, None)
                return 0
            elif not self._context.account.pay_within(connection, self._job.team, outcome.page.credits):
                raise CreditsUsedUp
            else:
                position = table.count_completed(connection, seq, outcome.page.credits)
                insert_document(connection, seq, position, content)
                sites.keep_origin(connection, self._job.id, outcome.origin)
            self._context.outbox.keep(connection, event)
            table.add_blocked(connection, seq, (*blocked, *links.blocked))
            return table.add_links(connection, seq, links.found, page.depth + 1)

        looked_at = await self._context.database.patient.run(work)
        self._told(event)
        return looked_at

    async def add_from_sitemap(self, links: ChosenLinks) -> int:
        """Take up pages that a sitemap lists, and return how many were looked at."""
        seq = self._job.seq

        def work(connection: sqlite3.Connection) -> int:
            table.add_blocked(connection, seq, links.blocked)
            return table.add_links(connection, seq, links.found, 0)

        looked_at = await self._context.database.patient.run(work)
        self._context.changed(self._job.id)
        return looked_at

    async def fail_waiting(self, reason: PageFailed) -> None:
        """Let every page that still waits fail, because its job goes on no more."""
        last = 0
        while pages := await self._waiting(last):
            last = pages[-1].number
            await self._fail_pages(pages, reason)

    async def end(self) -> bool:
        """End the job, which has no page left; False if it has got some meanwhile."""
        event = self._job_event("completed")
        now = self._context.clock.now()

        def work(connection: sqlite3.Connection) -> bool:
            ended = table.end_job(connection, self._job.seq, now)
            if ended:
                self._context.outbox.keep(connection, event)
            return ended

        ended = await self._context.database.patient.run(work)
        self._told(event)
        return ended

    async def fail(self, error: str) -> None:
        """End the job, because it cannot go on."""
        event = self._job_event("failed", success=False, error=error)
        now = self._context.clock.now()

        def work(connection: sqlite3.Connection) -> None:
            table.fail_job(connection, self._job.seq, error, now)
            self._context.outbox.keep(connection, event)

        await self._context.database.patient.run(work)
        self._told(event)

    async def _waiting(self, last: int) -> list[WaitingPage]:
        return await self._context.database.patient.run(
            lambda c: table.waiting_pages(c, self._job.seq, last, _AT_ONCE)
        )

    async def _fail_pages(self, pages: Sequence[WaitingPage], reason: PageFailed) -> None:
        seq = self._job.seq
        ends = [(page, self._error(page, reason), self._page_event(page, reason)) for page in pages]

        def work(connection: sqlite3.Connection) -> None:
            for page, error, event in ends:
                if table.end_page(connection, seq, page.number):
                    table.count_failed(connection, seq, page.number, error)
                    self._context.outbox.keep(connection, event)

        await self._context.database.patient.run(work)
        self._told(*(event for _, _, event in ends))

    def _told(self, *events: PreparedDelivery | None) -> None:
        self._context.outbox.wake(*events)
        self._context.changed(self._job.id)

    def _error(self, page: WaitingPage, outcome: PageFailed) -> PageError:
        now = self._context.clock.now()
        return PageError(id=self._context.ids.new(), at=now, url=page.url, code=outcome.code, text=outcome.text)

    def _page_event(
        self, page: WaitingPage, outcome: PageOutcome, document: bytes = b""
    ) -> PreparedDelivery | None:
        failed = isinstance(outcome, PageFailed)
        data: list[Any] = [msgspec.Raw(document) if document else {"metadata": {"sourceURL": page.url}}]
        error = outcome.text if isinstance(outcome, PageFailed) else None
        return self._job_event("page", success=not failed, data=data, error=error)

    def _job_event(
        self, kind: str, *, success: bool = True, data: list[Any] | None = None, error: str | None = None
    ) -> PreparedDelivery | None:
        return self._context.outbox.prepare(
            self._job.plan.webhook,
            f"{self._job.kind}.{kind}",
            self._job.id,
            success=success,
            data=data,
            error=error,
        )


def document_of(outcome: PageScraped) -> Json:
    """Return a page as the results and the events of a job have it: its warning is part of it."""
    page = outcome.page
    if page.warning is None or "warning" in page.document:
        return page.document
    return {**page.document, "warning": page.warning}
