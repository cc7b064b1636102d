"""Handlers as users write them, for the type checker: what is right passes, and what is wrong is marked as such.

The checks run with warn_unused_ignores, so a mistake that is no longer found is found here.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta

import httpx
import pytest

from receiver import BatchContext, Context, GiveUp, HandlerError, HandlerOptions, Retry, Router, RunOptions
from receiver.events import (
    CrawlCompleted,
    CrawlEvent,
    CrawlPage,
    Event,
    MonitorCheckCompleted,
    PageEvent,
    ScheduledRun,
)
from receiver.events.documents import Document, MonitorCheck

router = Router()


class Pool:
    """A resource."""

    async def save(self, event: Event) -> None:
        """Save it."""


class Model:
    """Another one."""


@router.resource
async def make_pool() -> AsyncIterator[Pool]:
    yield Pool()


@router.resource
def make_model(pool: Pool) -> Iterator[Model]:
    yield Model()


@router.on(CrawlPage, ordered=True, on_dead="hold", retry_on=(OSError, httpx.HTTPError))
async def index(event: CrawlPage, pool: Pool, ctx: Context) -> None:
    if event.page is None:
        raise GiveUp("no page")
    if await ctx.once(f"index {event.url}"):
        await pool.save(event)
    answer: httpx.Response = await ctx.client.get(f"/v2/crawl/{ctx.job_id}")
    if answer.status_code == 429:
        raise Retry(after=timedelta(minutes=1))
    async for status in ctx.client.crawl_pages(ctx.job_id or ""):
        found: list[Document] = status.data
        ctx.log.info("%d pages", len(found))
    ctx.heartbeat()


@router.on(MonitorCheckCompleted, where=lambda e: e.check.summary.changed > 0, timeout=timedelta(seconds=5))
def tell(event: MonitorCheckCompleted, ctx: Context) -> None:
    if ctx.once("mail") and not ctx.once("letter"):
        check: MonitorCheck = ctx.sync_client.run_monitor(event.check.monitor_id or "")
        ctx.log.info("told", extra={"check": check.id, "key": ctx.delivery.id})


@router.on(PageEvent, batch=100, linger=timedelta(seconds=2), concurrency=2, rate="30/min")
async def gather(events: list[PageEvent], ctx: BatchContext, model: Model) -> None:
    for event, delivery in zip(events, ctx.deliveries, strict=True):
        ctx.log.info("%s came at %s", event.url, delivery.received_at)


@router.on("crawl.*", lane=lambda e: e.job_id, give_up_on=KeyError)
async def follow(event: CrawlEvent) -> None: ...


@router.on(CrawlCompleted, after_pages=timedelta(minutes=25), quiet=timedelta(minutes=1))
async def publish(event: CrawlCompleted) -> None: ...


@router.on(CrawlPage, run_in="process")
def compute(event: CrawlPage) -> None: ...


@router.every("5 minutes", attempts=3, retry_on=OSError)
async def look(event: ScheduledRun, ctx: Context) -> None:
    due_at: datetime = event.due_at
    ctx.log.info("%s was due %s", event.name, due_at)


@router.every(cron="0 9 * * 1", timezone="Europe/Berlin", run_in="process")
def report(event: ScheduledRun) -> None: ...


@router.later(CrawlPage, timeout=5)
def once_more(event: CrawlPage, ctx: Context) -> None:
    ctx.later(once_more, event, after="1 hour")
    ctx.later("tests.test_typed_api.once_more", event, after=timedelta(hours=1))
    ctx.later(once_more, event, after=90)


shared_options: RunOptions = {"attempts": 3, "timeout": 5}


@router.every(60, **shared_options)
def each_minute(event: ScheduledRun) -> None: ...


careful: HandlerOptions[Event] = {"attempts": 3, "timeout": 5}


@router.on(CrawlPage, CrawlCompleted, **careful)
async def shared(event: CrawlPage | CrawlCompleted) -> None: ...


def a_sequence(events: Sequence[Event]) -> None: ...


router.add(a_sequence, "*", batch=10, name="sequence")


def test_the_handlers_above_are_registered() -> None:
    """And fit together."""
    router.check()

    assert len(router) == 12


async def test_what_the_type_checker_refuses_is_refused_here_too() -> None:
    """Each line is an error for both."""
    other = Router()
    with pytest.raises(TypeError):
        other.on(CrawlPage, retries=3)(index)  # type: ignore[call-overload]
    with pytest.raises(HandlerError):
        other.on(CrawlPage, attempts="3")(index)  # type: ignore[call-overload]
    with pytest.raises(HandlerError):
        other.on(CrawlPage, run_in="thread")(index)  # type: ignore[call-overload]
    with pytest.raises(HandlerError):
        other.on(CrawlPage, ordered=True, on_dead="stop")(index)  # type: ignore[call-overload]
    with pytest.raises(HandlerError):
        other.on(CrawlPage, batch=10, linger="2s")(a_sequence)  # type: ignore[call-overload]
    with pytest.raises(HandlerError):
        other.add(index, CrawlPage, retry_on=[OSError])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        other.every("1h", batch=10)(look)  # type: ignore[call-arg]
    with pytest.raises(HandlerError):
        other.every(cron=5)(look)  # type: ignore[arg-type]
    with pytest.raises(HandlerError):
        other.on(5)(index)  # type: ignore[call-overload]
