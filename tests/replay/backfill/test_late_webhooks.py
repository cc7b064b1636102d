"""Tests of a webhook that arrives after its page was imported: it is stored, and no handler gets the page again."""

import logging
from typing import Any

import pytest

from receiver import Context, Router
from receiver.core.bulk import Imported
from receiver.core.types import Origin, Trigger
from receiver.events import Event
from receiver.replay.backfill.comparing import to_import
from receiver.signals import attempt_started
from tests.doubles import appended, event_of, watching
from tests.replay.backfill.conftest import Open
from tests.replay.backfill.world import crawl, document, sent
from tests.workbench import SECOND, Workbench, bench

ERROR: dict[str, Any] = {"success": False, "error": "Scrape timed out"}
BAD = [{"metadata": {"sourceURL": "https://example.com/bad"}}]


def recording(seen: list[str]) -> Router:
    """Return a router that records the events it gets."""
    router = Router()

    @router.on("*")
    async def note(event: Event, ctx: Context) -> None:
        seen.append(f"{event.type} {ctx.delivery.id[:9]}")

    return router


async def backfill_two_pages(open_world: Open, on: Workbench) -> None:
    """Import a crawl of two pages, one of them failed, without any earlier event."""
    world = open_world(crawl(document(1), errors=[{"url": "https://example.com/bad", "error": "Scrape timed out"}]))
    world.store = on.store
    await world.backfill(family="crawl")
    await on.after(2 * SECOND)


async def test_handlers_get_imported_events_with_the_trigger_backfill(open_world: Open) -> None:
    """The first attempt has this trigger."""
    seen: list[str] = []
    with watching(attempt_started) as started:
        async with bench(recording(seen)) as on:
            await backfill_two_pages(open_world, on)

    assert seen == ["crawl.page backfill:", "crawl.page backfill:", "crawl.completed backfill:"]
    assert {one.trigger for one in started} == {Trigger.BACKFILL}


async def test_the_late_webhook_of_an_imported_event_makes_no_work(
    open_world: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """It is stored like any other delivery, and a log line has the reason why it is not handled."""
    caplog.set_level(logging.INFO, "receiver.worker.routing")
    seen: list[str] = []
    async with bench(recording(seen)) as on:
        await backfill_two_pages(open_world, on)
        seen.clear()

        await on.add(
            sent("crawl.page", "w1", [document(1)]),
            sent("crawl.page", "w2", BAD, **ERROR),
            sent("crawl.completed", "w3"),
            sent("crawl.page", "w4", [document(4)]),
        )

        assert seen == ["crawl.page w4"]
        assert (await on.store.detail(sent("crawl.page", "w1").key)).work == ()
    told = [(event_of(record), record.__dict__["id"]) for record in caplog.records]
    assert told == [("late_webhook_skipped", key) for key in ("w1", "w2", "w3")]


async def test_a_webhook_and_its_imported_event_are_handled_once(open_world: Open) -> None:
    """The webhook came first, but no worker was running. So both wait at the same time."""
    seen: list[str] = []
    async with bench(recording(seen), started=False) as on:
        world = open_world(crawl(document(1)))
        world.store = on.store
        missing = await world.compare(family="crawl")
        found = to_import(missing, world.spool, world.store, world.clock, origin=Origin.BACKFILL)
        parts = [part async for part in found]
        await appended(on.store, sent("crawl.page", "w1", [document(1)]))
        for part in parts:
            await on.store.import_deliveries(part)
        await on.start()
        await on.after(2 * SECOND)

    assert sorted(seen) == ["crawl.completed backfill:", "crawl.page backfill:"]


async def test_an_event_imported_from_a_bundle_does_not_stop_a_webhook(open_world: Open) -> None:
    """Such an event waits for a replay, and may never be handled."""
    seen: list[str] = []
    world = open_world(crawl(document(1)))
    await world.backfill(family="crawl")
    made = await world.stored()
    async with bench(recording(seen)) as on:
        await on.store.import_deliveries([Imported(one, origin=Origin.IMPORT) for one in made])
        await on.add(sent("crawl.page", "w1", [document(1)]))

    assert seen == ["crawl.page w1"]
