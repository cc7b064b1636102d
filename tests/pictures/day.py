"""A day of a deployment in a store in memory, for pictures: made payloads, and a clock that stands still."""

import random
from datetime import UTC, datetime, timedelta

from receiver.core.activity import WorkerSign
from receiver.core.claims import Lease, Settlement
from receiver.core.clock import VirtualClock
from receiver.core.deliveries import Delivery
from receiver.core.envelope import read_envelope
from receiver.core.types import AttemptOutcome, HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt, NewWork
from receiver.testing import job_story
from tests.doubles import OpenStore, appended

NOW = datetime(2026, 8, 4, 14, 37, 20, tzinfo=UTC)
DAY = timedelta(days=1)
HEADERS = (("content-type", "application/json"), ("user-agent", "Firecrawl-Webhook/1.0"))
WORKERS = (WorkerId("worker-1"), WorkerId("worker-2"))
SAVE, INDEX, TELL = (
    HandlerName("handlers.save_page"),
    HandlerName("handlers.index_page"),
    HandlerName("handlers.tell"),
)
TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app/handlers.py", line 31, in index_page
    await search.index(event.page.metadata.source_url, event.page.markdown)
  File "/srv/app/search.py", line 18, in index
    raise TimeoutError("the search index did not answer in 5 s")
TimeoutError: the search index did not answer in 5 s
"""
_ERROR = "TimeoutError: the search index did not answer in 5 s"
_INDEX_IS_AWAY = (NOW - timedelta(minutes=41), NOW - timedelta(minutes=33))
_LEASE = timedelta(minutes=1)


def arrivals(rng: random.Random) -> list[Delivery]:
    """Return the deliveries of a day: crawls and other jobs, more of them by day than by night."""
    found: list[Delivery] = []
    moment, seed = NOW - DAY, 0
    while moment < NOW - timedelta(minutes=1):
        busy = 1.0 if 7 <= moment.hour < 19 else 0.25
        family = rng.choice(("crawl", "crawl", "crawl", "batch_scrape", "monitor", "agent", "extract"))
        at = moment
        for one in job_story(family, rng.randrange(8, 60), seed=seed):
            if at < NOW:
                found.append(read_envelope(HEADERS, one.body, received_at=at))
            at += timedelta(seconds=rng.expovariate(1 / 9))
        moment += timedelta(minutes=rng.uniform(2, 9) / busy)
        seed += 1
    for number, one in enumerate(job_story("crawl", 60, seed=seed)[:40]):  # it goes on
        found.append(read_envelope(HEADERS, one.body, received_at=NOW + (number - 40) * timedelta(seconds=2)))
    return sorted(found, key=lambda one: one.received_at)


def handlers_of(kind: str) -> tuple[HandlerName, ...]:
    """Return the handlers of an event type."""
    if kind.endswith(".page"):
        return SAVE, INDEX
    return (TELL,) if kind.endswith(".completed") else ()


def end_of(work_id: int, worker: WorkerId, handler: HandlerName, begun: datetime, rng: random.Random) -> Settlement:
    """Return how an attempt ends: well, unless the index of pages is away."""
    took = timedelta(seconds=rng.lognormvariate(-3.6, 0.7))
    if handler == INDEX and _INDEX_IS_AWAY[0] <= begun < _INDEX_IS_AWAY[1]:
        ended = begun + timedelta(seconds=5)
        failed = Attempt(1, Trigger.DELIVERY, begun, ended, AttemptOutcome.FAILED, _ERROR, TRACEBACK)
        return Settlement(work_id, handler, worker, failed, WorkState.DEAD, ended)
    done = Attempt(1, Trigger.DELIVERY, begun, begun + took, AttemptOutcome.SUCCEEDED)
    return Settlement(work_id, handler, worker, done, WorkState.DONE, begun + took)


async def lived() -> tuple[OpenStore, VirtualClock]:
    """Return a store that has lived for a day, and the clock that shows the end of it."""
    rng, store = random.Random(4), OpenStore()
    async with store.log() as log, store.queue() as queue:
        for at, one in enumerate(arrivals(rng)):
            now, worker = one.received_at, WORKERS[at % 2]
            await appended(log, one)
            batch = await queue.routing_batch(limit=1, max_bytes=10**9)
            names = handlers_of(one.type)
            work = [NewWork(each.seq, name) for each in batch.deliveries for name in names]
            claimed = await queue.route(batch, work, lease=Lease(worker, now + _LEASE), now=now)
            if NOW - now < timedelta(seconds=3):
                continue  # it runs now
            ends = [
                end_of(each, worker, name, now, rng)
                for each, name in zip(claimed or (), names, strict=False)
                if each
            ]
            await queue.settle(ends)
        for number, worker in enumerate(WORKERS, start=1):
            sign = WorkerSign(worker, f"worker-{number}", 7, "0.1.0", NOW - 3 * DAY)
            await queue.sign_on(sign, now=NOW - timedelta(seconds=2))
    return store, VirtualClock(NOW)
