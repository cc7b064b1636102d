"""Handlers that do nothing, so that what is measured is everything around them."""

from receiver import Router
from receiver.events import Event

on_loop = Router()
in_threads = Router()


@on_loop.on("*", name="benchmark.on_loop")
async def do_nothing(event: Event) -> None:
    """Handle an event on the event loop."""


@in_threads.on("*", name="benchmark.in_threads")
def do_nothing_in_a_thread(event: Event) -> None:
    """Handle an event in a thread."""
