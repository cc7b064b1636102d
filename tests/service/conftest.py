import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.service.posting import Listener


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    made = Listener("")
    server = await asyncio.start_server(lambda r, w: made.serve(r, w), "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/webhooks"
    async with server:
        yield made
