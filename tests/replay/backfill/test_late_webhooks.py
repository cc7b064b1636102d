"""A webhook that comes after its page was brought in: it is kept, and no handler sees the page again."""

import logging
from typing import Any

import pytest

from receiver import Context, Router
from receiver.core.bulk import Imported
from receiver.core.types import Origin, Trigger
from receiver.events import Event
from receiver.replay.backfill.comparing import to_import
from receiver.signals import attempt_started
from tests.doubles import watching
from tests.replay.backfill.conftest import Open
from tests.replay.backfill.world import crawl, document, sent
from tests.workbench import SECOND, Workbench, bench

ERROR: dict[str, Any] = {"success": False, "error": "Scrape timed out"}
BAD = [{"metadata": {"sourceURL": "https://example.com/bad"}}]


def recording(seen: list[str]) -> Router:
    """Return a router that notes what it is given."""
    router = Router()

    @router.on("*")
    async def note(event: Event, ctx: Context) -> None:
        seen.append(f"{event.type} {ctx.delivery.id[:9]}")

    return router


async def brought_in(open_world: Open, on: Workbench) -> None:
    """Bring in a crawl of two pages, one failed, of which nothing had come."""
    world = open_world(crawl(document(1), errors=[{"url": "https://example.com/bad", "error": "Scrape timed out"}]))
    world.store = on.store
    await world.backfill(family="crawl")
    await on.after(2 * SECOND)


async def test_handlers_see_what_was_brought_in_with_its_own_trigger(open_world: Open) -> None:
    """The first attempt says why it runs."""
    seen: list[str] = []
    with watching(attempt_started) as started:
        async with bench(recording(seen)) as on:
            await brought_in(open_world, on)

    assert seen == ["crawl.page backfill:", "crawl.page backfill:", "crawl.completed backfill:"]
    assert {one.trigger for one in started} == {Trigger.BACKFILL}


async def test_the_late_webhook_of_what_was_brought_in_makes_no_work(
    open_world: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """It is stored like any other delivery, and a log line says why nothing was done for it."""
    caplog.set_level(logging.INFO, "receiver.worker.late_webhooks")
    seen: list[str] = []
    async with bench(recording(seen)) as on:
        await brought_in(open_world, on)
        seen.clear()

        await on.add(
            sent("crawl.page", "w1", [document(1)]),
            sent("crawl.page", "w2", BAD, **ERROR),
            sent("crawl.completed", "w3"),
            sent("crawl.page", "w4", [document(4)]),
        )

        assert seen == ["crawl.page w4"]
        assert (await on.store.detail(sent("crawl.page", "w1").key)).work == ()
    told = [(record.message, record.__dict__["id"]) for record in caplog.records]
    assert told == [("late_webhook_skipped", key) for key in ("w1", "w2", "w3")]


async def test_of_two_that_wait_together_one_is_handled(open_world: Open) -> None:
    """The webhook came first and no worker ran: what was brought in beside it is enough."""
    seen: list[str] = []
    async with bench(recording(seen), started=False) as on:
        world = open_world(crawl(document(1)))
        world.store = on.store
        missing = await world.compare(family="crawl")
        found = to_import(missing, world.spool, world.store, world.clock, origin=Origin.BACKFILL)
        parts = [part async for part in found]
        await on.store.append(sent("crawl.page", "w1", [document(1)]))
        for part in parts:
            await on.store.import_deliveries(part)
        await on.start()
        await on.after(2 * SECOND)

    assert sorted(seen) == ["crawl.completed backfill:", "crawl.page backfill:"]


async def test_an_imported_one_keeps_no_webhook_from_its_handlers(open_world: Open) -> None:
    """What is imported waits for a replay, and may never be handled."""
    seen: list[str] = []
    world = open_world(crawl(document(1)))
    await world.backfill(family="crawl")
    made = await world.stored()
    async with bench(recording(seen)) as on:
        await on.store.import_deliveries([Imported(one, origin=Origin.IMPORT) for one in made])
        await on.add(sent("crawl.page", "w1", [document(1)]))

    assert seen == ["crawl.page w1"]
