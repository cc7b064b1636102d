"""Handlers that do nothing, so that what is measured is everything around them, and one that only waits."""

import asyncio
from datetime import timedelta

from receiver import Router
from receiver.events import Event

on_loop = Router()
in_threads = Router()
in_lanes = Router()
in_one_lane = Router()
in_batches = Router()
waiting = Router()


@on_loop.on("*", name="benchmark.on_loop")
async def do_nothing(event: Event) -> None:
    """Handle an event on the event loop."""


@in_threads.on("*", name="benchmark.in_threads")
def do_nothing_in_a_thread(event: Event) -> None:
    """Handle an event in a thread."""


@in_lanes.on("*", name="benchmark.in_lanes", ordered=True)
async def do_nothing_in_order(event: Event) -> None:
    """Handle an event after those of its job that came before."""


@in_one_lane.on("*", name="benchmark.in_one_lane", lane=lambda event: "the only one")
async def do_nothing_after_all_before(event: Event) -> None:
    """Handle an event after all that came before."""


@in_batches.on("*", name="benchmark.in_batches", batch=100, linger=timedelta(milliseconds=50))
async def do_nothing_with_many(events: list[Event]) -> None:
    """Handle a hundred events at once."""


@waiting.on("*", name="benchmark.waiting")
async def wait(event: Event) -> None:
    """Take as long as a call of another service, and no processor time."""
    await asyncio.sleep(0.02)
