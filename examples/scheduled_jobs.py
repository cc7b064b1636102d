"""Scheduled functions beside webhooks: an hourly check, a weekly report, and a second check after a delay.

Run it, and send it a crawl from another terminal with `receiver send crawl --pages 10`:

    receiver serve --handlers examples.scheduled_jobs:router
"""

from datetime import timedelta

from receiver import Context, Router
from receiver.events import CrawlPage, CrawlStarted, PageEvent, ScheduledRun

router = Router()


@router.every("1 hour")
async def look(event: ScheduledRun, ctx: Context) -> None:
    """Of all workers one makes each run. While a run has not ended, or waits for a retry, there is no next one."""
    ctx.log.info("look for what is stale, %s", event.due_at)


@router.every(cron="0 9 * * 1", timezone="Europe/Berlin", attempts=3)
def report(event: ScheduledRun, ctx: Context) -> None:
    """At nine on Mondays, or later if no worker ran at that time."""
    late = ctx.now - event.due_at
    if late > timedelta(hours=12):
        ctx.log.info("left out the report that was due %s", event.due_at)
        return
    ctx.log.info("the report of the week")


@router.on(CrawlStarted)
async def started(event: CrawlStarted, ctx: Context) -> None:
    """If this attempt fails, its call has no effect. The next attempt calls again."""
    ctx.later(still_running, event, after="30 minutes")


@router.later(CrawlStarted)
async def still_running(event: CrawlStarted, ctx: Context) -> None:
    """Only `ctx.later` runs this function."""
    ctx.log.info("has the crawl %s ended?", event.job_id)


@router.on(CrawlPage, where=lambda event: event.failed)
def failed(event: CrawlPage, ctx: Context) -> None:
    """A plain function calls it in the same way; a handler can be named too."""
    ctx.later("examples.scheduled_jobs.remember", event, after=timedelta(hours=1))


@router.later(PageEvent)
def remember(event: PageEvent, ctx: Context) -> None:
    """It gets every page event that `ctx.later` was called with."""
    ctx.log.info("%s failed an hour ago", event.url)
