"""A limit of the service that a handler runs into: its work item runs again when the service has asked for it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from receiver import Context, Router
from receiver.core.clock import VirtualClock
from receiver.core.types import WorkerId, WorkState
from receiver.core.work import WorkFilter, WorkSummary
from receiver.errors import RateLimited
from receiver.events import Event
from receiver.running import run_worker
from receiver.settings import load_settings
from tests.doubles import NOON, OpenStore, appended, delivery, eventually, pass_time, soon
from tests.service.client.calling import KEY
from tests.service.client.stub import Connection, serving

WAIT = timedelta(minutes=5)
REFUSED = {"success": False, "error": "Rate limit exceeded, please retry after 300s"}


def limited(connection: Connection) -> None:
    connection.answer(429, REFUSED)


def quiet(connection: Connection) -> None:
    connection.answer(200, {"success": True, "jobsInQueue": 3})


async def in_async(event: Event, ctx: Context) -> None:
    await ctx.client.queue_status()


def in_plain(event: Event, ctx: Context) -> None:
    ctx.sync_client.queue_status()


@pytest.mark.usefixtures("bare_environment")
@pytest.mark.parametrize("handler", [in_async, in_plain])
@pytest.mark.parametrize("gives_up", [False, True])
async def test_a_rate_limit_says_when_the_work_runs_again(handler: Any, gives_up: bool) -> None:
    """Not before, though the schedule's first pause is a second; a handler can give up on it instead."""
    router = Router()
    router.add(handler, "*", name="ask", give_up_on=RateLimited if gives_up else ())
    store, clock, stop = OpenStore(), VirtualClock(NOON), asyncio.Event()
    await appended(store, delivery())

    async def work() -> WorkSummary:
        (found,) = [one async for one in store.work_items(WorkFilter())]
        return found

    with serving(limited, quiet) as stub:
        settings = load_settings(base_url=stub.address, api_key=KEY)
        worker = asyncio.create_task(
            run_worker(settings, router, stop, worker=WorkerId("w"), store=store, clock=clock)
        )
        await eventually(lambda: store.state.work and store.state.work[1].last_error is not None)
        failed = await work()
        if not gives_up:
            await pass_time(clock, 1.1 * WAIT)
            await eventually(lambda: store.state.work[1].state is WorkState.DONE)
        stop.set()
        await soon(worker)

    assert failed.last_error is not None
    assert failed.last_error.startswith("RateLimited: GET /v2/team/queue-status: 429 Rate limit exceeded")
    if gives_up:
        assert failed.state is WorkState.DEAD
    else:
        assert failed.due_at is not None
        assert WAIT <= failed.due_at - NOON <= 1.1 * WAIT
    assert len(stub.connections) == (1 if gives_up else 2)
