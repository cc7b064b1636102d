"""The worker of the fixtures, in virtual time."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from freezegun import freeze_time
from freezegun.api import freeze_factories

from receiver import Context, GiveUp, HandlerError, Router
from receiver.core.types import WorkState
from receiver.events import CrawlCompleted, CrawlEvent, CrawlPage, Event
from receiver.settings import Settings
from receiver.testing import (
    RunningReceiver,
    ScheduledSender,
    SteppedClock,
    Work,
    assert_dead,
    assert_handled,
    job_story,
    open_receiver,
    open_sender,
    record_calls,
    sample,
)

MINUTE = timedelta(minutes=1)
WorkItems = Callable[..., Awaitable[list[Work]]]


class Shelf:
    """A resource."""

    def __init__(self) -> None:
        self.closed = False


@pytest.fixture
def receiver_router() -> Router:
    """Replaces the plugin's; the tests fill it in their own fixtures, or begin a receiver of their own."""
    return Router()


@pytest.fixture
def shelf() -> Shelf:
    """What the test gives in place of the router's own."""
    return Shelf()


@pytest.fixture
def receiver_resources(shelf: Shelf) -> dict[Any, object]:
    """Replaces the plugin's."""
    return {Shelf: shelf}


@pytest.fixture
def called(receiver_router: Router) -> list[str]:
    """Fill the router; return what its handlers have done."""
    done: list[str] = []

    @receiver_router.on(CrawlPage, name="shop.index", attempts=3, pauses=[2 * MINUTE], jitter=0)
    async def index(event: CrawlPage, ctx: Context) -> None:
        done.append(f"index {ctx.attempt}")
        if ctx.attempt < 3:
            raise ValueError("not yet")

    @receiver_router.on(CrawlPage, name="shop.shelve")
    def shelve(event: CrawlPage, ctx: Context, shelf: Shelf) -> None:
        done.append(f"shelve once {bool(ctx.once('k'))}, closed {shelf.closed}")

    @receiver_router.on("agent.*", name="shop.refuse")
    async def refuse(event: Event) -> None:
        raise GiveUp("no agents here")

    @receiver_router.resource
    async def make() -> AsyncIterator[Shelf]:
        raise AssertionError("the test gives one")
        yield

    return done


async def test_handlers_run_and_are_tried_again_in_virtual_time(
    called: list[str],
    receiver_sender: ScheduledSender,
    receiver_clock: SteppedClock,
    receiver_work_items: WorkItems,
) -> None:
    """Each by its own schedule on the clock of the test, without waiting."""
    await receiver_sender.send(sample("crawl.page"))
    assert called == ["index 1", "shelve once True, closed False"]
    assert_handled(await receiver_work_items(), "shelve")
    with pytest.raises(AssertionError, match=r"waiting after 1 attempt: ValueError: not yet"):
        assert_handled(await receiver_work_items(), "index")

    await receiver_clock.advance(minutes=2)
    assert called[2:] == ["index 2"]

    await receiver_clock.advance(minutes=2)
    assert called[3:] == ["index 3"]
    assert_handled(await receiver_work_items(), times=2)
    assert [work.attempts for work in await receiver_work_items("*index")] == [3]


@freeze_time("2026-08-04 12:00", real_asyncio=True)
async def test_frozen_time_moves_the_worker_too(
    receiver_router: Router, receiver_settings: Settings, receiver_clock: SteppedClock
) -> None:
    """What a handler asks `datetime`, its context, the store and the service all tell the same time."""
    told: list[tuple[datetime, datetime, datetime]] = []

    @receiver_router.on("*", name="keep", attempts=2, pauses=[2 * MINUTE], jitter=0)
    async def keep(event: Event, ctx: Context) -> None:
        told.append((datetime.now(UTC), ctx.now, ctx.delivery.received_at))  # noqa: TID251 - it is frozen
        if ctx.attempt == 1:
            raise ValueError("again")

    async with (
        open_receiver(receiver_router, receiver_settings, receiver_clock) as app,
        posting(app, receiver_clock) as sender,
    ):
        with sender.outage():
            await sender.send(sample("crawl.page"))
        freeze_factories[-1].move_to("2026-08-04 12:10")
        assert_handled(await app.work_items(), times=1)

    noon = datetime(2026, 8, 4, 12, tzinfo=UTC)
    assert told == [(noon + MINUTE,) * 3, (noon + 3 * MINUTE, noon + 3 * MINUTE, noon + MINUTE)]


async def test_a_handler_that_gives_up_leaves_dead_work(
    called: list[str], receiver_sender: ScheduledSender, receiver_work_items: WorkItems
) -> None:
    """With the error and its traceback."""
    await receiver_sender.send(sample("agent.started"))

    assert_dead(await receiver_work_items(), "shop.refuse", error="no agents here", times=1)
    [work] = await receiver_work_items(type="agent.*")
    assert 'raise GiveUp("no agents here")' in (work.traceback or "")


async def test_a_worker_takes_a_whole_story(
    receiver_router: Router, receiver_settings: Settings, receiver_clock: SteppedClock
) -> None:
    """Shuffled, and with lost pages: `after_pages` waits in virtual time, batches gather, lanes stand in line."""

    @receiver_router.on(CrawlCompleted, name="publish", after_pages=25 * MINUTE, quiet=2 * MINUTE)
    async def publish(event: CrawlCompleted) -> None: ...

    @receiver_router.on(CrawlPage, name="index", batch=100, linger=timedelta(seconds=30))
    async def index(events: list[CrawlPage]) -> None: ...

    @receiver_router.on(CrawlEvent, name="follow", ordered=True)
    async def follow(event: CrawlEvent) -> None: ...

    recorded = record_calls(receiver_router)
    story = job_story("crawl", pages=20, order="shuffled", lost=2)
    async with (
        open_receiver(recorded.router, receiver_settings, receiver_clock) as app,
        posting(app, receiver_clock) as sender,
    ):
        await sender.send_all(story)
        assert recorded.events("follow") == [one.event for one in story]
        assert recorded.events("index") == recorded.events("publish") == []

        await receiver_clock.advance(seconds=30)
        assert [len(events) for events in recorded.events("index")] == [18]
        assert recorded.events("publish") == []

        await receiver_clock.advance(minutes=2)
        assert len(recorded.events("publish")) == 1
        assert_handled(await app.work_items(), times=20 + 18 + 1)


def posting(app: RunningReceiver, clock: SteppedClock) -> AbstractAsyncContextManager[ScheduledSender]:
    """Send to an app that the fixtures know nothing of."""
    return open_sender(app, clock, secret=app.settings.plain_secrets()[0])


async def test_a_handler_is_cancelled_at_its_time_out(
    receiver_router: Router, receiver_settings: Settings, receiver_clock: SteppedClock
) -> None:
    """In virtual time, if it waits on the clock of the test."""

    @receiver_router.on("*", name="slow", timeout=30, attempts=1)
    async def slow(event: Event) -> None:
        await receiver_clock.sleep(MINUTE)

    async with (
        open_receiver(receiver_router, receiver_settings, receiver_clock) as app,
        posting(app, receiver_clock) as sender,
    ):
        await sender.send(sample("crawl.page"))
        [work] = await app.work_items()
        assert work.state is WorkState.RUNNING

        await receiver_clock.advance(seconds=30)

        assert_dead(await app.work_items(), error="took longer than 30 s")


def work_for_a_while() -> None:
    """Take some hundredths of a second, and leave the interpreter to others meanwhile."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", 50_000)


async def test_the_clock_waits_for_a_handler_that_takes_real_time(
    receiver_router: Router, receiver_settings: Settings, receiver_clock: SteppedClock
) -> None:
    """Threads, files and other event loops do not use virtual time."""
    before, after = [], []

    @receiver_router.on("*", name="plain")
    def plain(event: Event) -> None:
        before.append(receiver_clock.now())
        work_for_a_while()
        after.append(receiver_clock.now())

    @receiver_router.on("*", name="real")
    async def real(event: Event) -> None:
        before.append(receiver_clock.now())
        await asyncio.to_thread(work_for_a_while)
        after.append(receiver_clock.now())

    async with (
        open_receiver(receiver_router, receiver_settings, receiver_clock) as app,
        posting(app, receiver_clock) as sender,
    ):
        await sender.send(sample("crawl.page"))

        assert len(after) == 2
        assert before == after
        assert_handled(await app.work_items(), times=2)


async def test_a_handler_that_never_ends_is_an_error(receiver_router: Router, receiver_settings: Settings) -> None:
    """The test does not hang."""
    clock = SteppedClock(patience=timedelta(milliseconds=50))

    @receiver_router.on("*", name="hangs")
    async def hangs(event: Event) -> None:
        await asyncio.Event().wait()

    async with open_receiver(receiver_router, receiver_settings, clock) as app, posting(app, clock) as sender:
        with pytest.raises(TimeoutError, match=r"1 handlers or deliveries still run after 0\.05 s of real time"):
            await sender.send(sample("crawl.page"))


async def test_resources_are_made_and_closed_as_by_a_worker(
    receiver_router: Router, receiver_settings: Settings, receiver_clock: SteppedClock
) -> None:
    """Except for those that the test gives."""
    made: list[Shelf] = []

    @receiver_router.resource
    async def make() -> AsyncIterator[Shelf]:
        made.append(Shelf())
        yield made[-1]
        made[-1].closed = True

    @receiver_router.on("*", name="save")
    async def save(event: Event, shelf: Shelf) -> None:
        assert not shelf.closed

    async with (
        open_receiver(receiver_router, receiver_settings, receiver_clock) as app,
        posting(app, receiver_clock) as sender,
    ):
        await sender.send(sample("crawl.page"))
        assert_handled(await app.work_items(), times=1)

    assert [shelf.closed for shelf in made] == [True]


async def test_a_missing_resource_is_an_error(
    receiver_router: Router, receiver_settings: Settings, receiver_clock: SteppedClock
) -> None:
    """It is raised before anything runs, as in `receiver work`."""

    @receiver_router.on("*", name="save")
    async def save(event: Event, shelf: Shelf) -> None: ...

    with pytest.raises(HandlerError, match="save wants Shelf"):
        async with open_receiver(receiver_router, receiver_settings, receiver_clock):
            pytest.fail("nothing begins")


async def test_the_app_is_the_real_one(receiver_app: RunningReceiver) -> None:
    """Its settings are those of a test, and the environment of this machine is ignored."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(receiver_app), base_url="http://r.test") as client:
        assert (await client.get("/readyz")).status_code == 200
    assert receiver_app.settings.authenticated
    assert await receiver_app.work_items() == []
