"""Tests of when a worker asks the service by itself, with an OpenStore, fixed answers and a virtual clock."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import httpx
import pytest

from receiver.core.bulk import Imported
from receiver.core.types import AppendOutcome
from receiver.errors import StoreError
from receiver.replay.backfill.watching import EVERY, RETRIES_OVER, SILENCE, Backfilling
from receiver.service.client import AsyncClient
from receiver.signals import JobAsked, job_asked
from tests.doubles import NOON, OpenStore, body_of, event_of, pass_time, turns, watching
from tests.replay.backfill.conftest import Open
from tests.replay.backfill.world import JOB, Service, World, crawl, document, sent
from tests.service.client.calling import BASE, KEY

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
STATUS = f"/v2/crawl/{JOB}"


@asynccontextmanager
async def running(world: World, workers: int = 1) -> AsyncIterator[None]:
    """Let workers watch jobs while the block runs."""
    tasks = [
        asyncio.create_task(Backfilling(world.store, world.store, world.client, world.clock).run())
        for _ in range(workers)
    ]
    await turns()
    yield
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(world: World, duration: timedelta) -> None:
    """Move the clock, check by check, until this time after noon."""
    while world.clock.now() < NOON + duration:
        await pass_time(world.clock, EVERY)
        await turns(300)


def status_asked(service: Service) -> int:
    return sum(path.startswith(f"{STATUS}?") for path in service.asked)


async def test_a_worker_asks_about_an_ended_job_after_the_last_retries(
    open_world: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """It imports missing events and logs them. No worker asks again, however much time passes."""
    caplog.set_level(logging.INFO, "receiver.replay.backfill.watching")
    world = open_world(crawl(document(1), document(2)))
    await world.add(sent("crawl.page", "w1", [document(1)]), sent("crawl.completed", "w2"))

    with watching(job_asked) as asked:
        async with running(world, workers=2):
            await until(world, RETRIES_OVER - EVERY)
            assert world.service.asked == []
            await until(world, 10 * HOUR)
    assert status_asked(world.service) == 1
    assert asked == [
        JobAsked(
            job_id=JOB,
            reason="ended",
            outcome="brought_in",
            imported={"crawl.page": 1},
            at=NOON + RETRIES_OVER,
        )
    ]

    (made,) = await world.made()
    assert made["data"] == [document(2)]
    (told,) = caplog.records
    assert (told.levelname, event_of(told), told.__dict__["job_id"]) == ("WARNING", "backfilled", JOB)
    assert told.__dict__["types"] == {"crawl.page": 1}


async def test_a_worker_asks_about_a_silent_job_after_an_hour(open_world: Open) -> None:
    """It asks again after the end of the job, and finds nothing more."""
    world = open_world(crawl(document(1)))
    await world.add(sent("crawl.started", "w0"))

    async with running(world):
        await until(world, SILENCE - EVERY)
        assert world.service.asked == []
        await until(world, SILENCE)
        assert [one["type"] for one in await world.made()] == ["crawl.page", "crawl.completed"]
        await until(world, 10 * HOUR)

    assert status_asked(world.service) == 2
    assert len(await world.made()) == 2


async def test_a_worker_asks_every_hour_about_a_silent_job_that_is_running(open_world: Open) -> None:
    """It stops when the job is over."""
    world = open_world(crawl(document(1), status="scraping"))
    await world.add(sent("crawl.started", "w0"))

    async with running(world):
        await until(world, 3 * HOUR - EVERY)
        assert status_asked(world.service) == 2
        assert await world.made() == []
        world.service.answers |= crawl(document(1)).answers
        await until(world, 4 * HOUR)

    assert len(await world.made()) == 2


async def test_any_worker_may_ask_about_a_silent_job(open_world: Open) -> None:
    """If a waiting worker is restarted, the next one asks at the right time and not earlier."""
    world = open_world(crawl(document(1), status="scraping"))
    await world.add(sent("crawl.started", "w0"))

    async with running(world):
        await until(world, SILENCE)
        assert status_asked(world.service) == 1
    async with running(world, workers=2):
        await until(world, 2 * HOUR - EVERY)
        assert status_asked(world.service) == 1
        world.service.answers |= crawl(document(1)).answers
        await until(world, 2 * HOUR)

    assert status_asked(world.service) == 2
    assert len(await world.made()) == 2


async def test_another_worker_continues_for_a_worker_that_ended(open_world: Open) -> None:
    """Only one of them does so, an hour after the first one started. Then the job is finished for all."""
    begun: list[str] = []

    async def hang(request: httpx.Request) -> httpx.Response:
        begun.append(request.url.path)
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes it")

    world = open_world(crawl(document(1)))
    await world.add(sent("crawl.completed", "w2"))
    async with AsyncClient(KEY, BASE, clock=world.clock, transport=httpx.MockTransport(hang)) as hanging:
        ended = asyncio.create_task(Backfilling(world.store, world.store, hanging, world.clock).run())
        await turns()
        async with running(world, workers=2):
            while not begun:
                await until(world, world.clock.now() - NOON + EVERY)
            began = world.clock.now() - NOON
            ended.cancel()
            await asyncio.wait([ended])
            await until(world, began + HOUR - EVERY)
            assert world.service.asked == []
            await until(world, began + HOUR)
            assert len(await world.made()) == 1
            await until(world, 10 * HOUR)

    assert (begun, began) == ([STATUS], RETRIES_OVER)
    assert status_asked(world.service) == 1


async def test_workers_wait_as_long_as_a_rate_limit_says(open_world: Open) -> None:
    """Workers that did not get the answer wait too."""
    world = open_world(Service({}))
    world.service.answers[STATUS] = 429
    world.service.headers = {"Retry-After": "1200"}
    await world.add(sent("crawl.completed", "w2"))

    async with running(world):
        await until(world, RETRIES_OVER)
        asked = status_asked(world.service)
        assert asked == 1
    world.service.answers = crawl(document(1)).answers
    async with running(world):
        await until(world, RETRIES_OVER + 15 * MINUTE)
        assert status_asked(world.service) == asked
        await until(world, RETRIES_OVER + HOUR)

    assert status_asked(world.service) == asked + 1
    assert len(await world.made()) == 1


async def test_a_worker_asks_again_at_the_next_check_if_the_service_is_down(
    open_world: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Each failure is logged, without the key."""
    world = open_world(Service({STATUS: 500}))
    await world.add(sent("crawl.completed", "w2"))

    async with running(world):
        await until(world, RETRIES_OVER + EVERY)
        assert await world.made() == []
        world.service.answers = crawl(document(1)).answers
        await until(world, RETRIES_OVER + 2 * EVERY)

    assert len(await world.made()) == 1
    told = [event_of(record) for record in caplog.records if record.name == "receiver.replay.backfill.watching"]
    assert told == ["backfill_deferred", "backfill_deferred", "backfilled"]


@pytest.mark.parametrize(("status", "asked"), [(500, True), (401, False)])
async def test_an_error_for_one_job_does_not_delay_other_jobs(open_world: Open, status: int, asked: bool) -> None:
    """An error that all jobs would get ends the check instead."""
    service = crawl(document(1))
    service.answers["/v2/crawl/other"] = status
    world = open_world(service)
    other = sent("crawl.completed", "w9")._replace(body=body_of("crawl.completed", id="other"), job_id="other")
    await world.add(sent("crawl.completed", "w2"), other)

    async with running(world):
        await until(world, RETRIES_OVER)

    assert (status_asked(service) == 1) is asked


class FillingStore(OpenStore):
    """A store that is full after it has stored so many parts. None means that it is never full."""

    full_after: int | None = None

    async def import_deliveries(self, deliveries: Sequence[Imported]) -> Sequence[AppendOutcome]:
        """Store a part, or raise StoreError if the store is full."""
        if self.full_after == 0:
            raise StoreError("the disk is full")
        if self.full_after is not None:
            self.full_after -= 1
        return await super().import_deliveries(deliveries)


async def test_each_outcome_of_asking_is_emitted(open_world: Open) -> None:
    """It has the number of imported events, even if the last part of a job could not be stored."""
    world = open_world(Service({STATUS: 500}))
    world.store = store = FillingStore()
    await world.add(sent("crawl.started", "w0"))

    with watching(job_asked) as asked:
        async with running(world):
            await until(world, SILENCE)
            world.service.answers = crawl(status="scraping").answers
            await until(world, SILENCE + EVERY)
            long = {"markdown": "x" * 2**22}  # so that each is a part of its own
            world.service.answers = crawl(document(1) | long, document(2) | long).answers
            store.full_after = 1
            await until(world, 2 * HOUR + EVERY)
            store.full_after = None
            await until(world, 3 * HOUR + EVERY)  # what was brought in has broken the silence
            world.service.answers = {}
            await until(world, 4 * HOUR)

    assert [(one.outcome, one.imported) for one in asked] == [
        ("failed", {}),
        ("not_over", {}),
        ("failed", {"crawl.page": 1}),
        ("brought_in", {"crawl.page": 1, "crawl.completed": 1}),
        ("impossible", {}),
    ]
    assert [one.reason for one in asked] == ["silent"] * 4 + ["ended"]


async def test_an_expired_job_is_logged_once(open_world: Open, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can import it any more, and the worker continues with other jobs."""
    world = open_world(Service({}))
    await world.add(sent("crawl.completed", "w2"), sent("schedule.completed", "w3"))

    async with running(world):
        await until(world, 2 * DAY)

    assert status_asked(world.service) == 1
    told = [event_of(record) for record in caplog.records if record.name == "receiver.replay.backfill.watching"]
    assert told == ["backfill_impossible"]


async def test_a_worker_does_not_ask_about_jobs_that_have_expired(open_world: Open) -> None:
    """This happens if no worker ran for days."""
    world = open_world(crawl(document(1)))
    await world.add(sent("crawl.completed", "w2"))
    world.clock.advance(DAY)

    async with running(world):
        await until(world, DAY + HOUR)

    assert world.service.asked == []
