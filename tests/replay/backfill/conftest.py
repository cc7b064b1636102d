from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from tests.replay.backfill.world import Service, World

Open = Callable[[Service], World]


@pytest.fixture
async def open_world() -> AsyncIterator[Open]:
    """Yield a function that opens a world around a service. The worlds are closed after the test."""
    async with AsyncExitStack() as stack:

        def made(service: Service) -> World:
            world = World(service)
            stack.enter_context(world.spool)
            stack.push_async_callback(world.client.aclose)
            return world

        yield made
