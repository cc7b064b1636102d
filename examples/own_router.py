"""Your own router: which events handlers can want, what their contexts have, and how they report a failure.

Run it, and send it a crawl from another terminal with `receiver send crawl --pages 10`:

    receiver serve --handlers examples.own_router:router
"""

from datetime import timedelta

from receiver import Context, GiveUp, Retry, Router
from receiver.events import CrawlPage, Event, MonitorCheckCompleted, PageEvent, TerminalEvent

router = Router()


@router.on(CrawlPage, where=lambda event: event.status_code == 200)
async def index(event: CrawlPage, ctx: Context) -> None:
    """An async function runs in the worker's event loop, so many of them can wait at one time."""
    text = event.page.markdown if event.page else None
    ctx.log.info("indexed %s, %d characters", event.url, len(text or ""))


@router.on(PageEvent, where=lambda event: event.failed and not event.cancelled_by_parent)
def complain(event: PageEvent, ctx: Context) -> None:
    """A plain function runs in a thread. This one gets the pages of crawls and of batch scrapes."""
    ctx.log.info("%s failed: %s", event.url, event.error)


@router.on(MonitorCheckCompleted, attempts=5, timeout=30)
async def follow_up(event: MonitorCheckCompleted, ctx: Context) -> None:
    """Every exception fails the attempt. `GiveUp` and `Retry` also decide what happens to the work item."""
    if event.check.monitor_id is None:
        raise GiveUp("a check without a monitor: trying again cannot help")
    if event.check.status == "partial" and ctx.attempt == 1:
        raise Retry("give the pages that failed a moment", after=timedelta(minutes=5))
    ctx.log.info("%d pages changed", event.check.summary.changed)


@router.on(TerminalEvent, "agent.action")
def note(event: Event, ctx: Context) -> None:
    """A handler can want several events, by class, by type name, or by a pattern such as `agent.*`."""
    ctx.log.info("job %s: %s", event.job_id, event.type)
