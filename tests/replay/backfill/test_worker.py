"""Tests of a complete worker with and without BACKFILL, with a service on a socket and a virtual clock."""

import asyncio
from typing import Any

import pytest

from receiver import Context, Router
from receiver.core.clock import VirtualClock
from receiver.core.types import WorkerId
from receiver.events import Event
from receiver.replay.backfill.watching import EVERY, RETRIES_OVER
from receiver.running import run_worker
from receiver.settings import load_settings
from tests.doubles import NOON, OpenStore, appended, eventually, pass_time, soon
from tests.replay.backfill.world import crawl, document, sent
from tests.service.client.calling import KEY
from tests.service.client.stub import Connection, serving


@pytest.mark.usefixtures("bare_environment")
@pytest.mark.parametrize("switched_on", [True, False])
async def test_a_worker_backfills_only_if_the_setting_is_on(switched_on: bool) -> None:
    """Its handlers get the imported events."""
    seen: list[str] = []
    router = Router()

    @router.on("*")
    async def note(event: Event, ctx: Context) -> None:
        seen.append(f"{event.type} {ctx.delivery.id[:9]}")

    answers: dict[str, Any] = crawl(document(1)).answers

    def answer(connection: Connection) -> None:
        connection.answer(200, answers[connection.path.partition("?")[0]])

    store, clock, stop = OpenStore(), VirtualClock(NOON), asyncio.Event()
    await appended(store, sent("crawl.completed", "w1"))
    with serving(answer) as stub:
        settings = load_settings(base_url=stub.address, api_key=KEY, backfill=switched_on)
        worker = asyncio.create_task(
            run_worker(settings, router, stop, worker=WorkerId("w"), store=store, clock=clock)
        )
        await eventually(lambda: seen == ["crawl.completed w1"])
        while clock.now() < NOON + RETRIES_OVER:
            await pass_time(clock, EVERY)
        if switched_on:
            await eventually(lambda: len(seen) == 2)
        stop.set()
        await soon(worker)

        assert seen[1:] == (["crawl.page backfill:"] if switched_on else [])
        assert len(stub.connections) == (2 if switched_on else 0)
