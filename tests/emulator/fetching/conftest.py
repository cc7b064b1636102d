from collections.abc import AsyncIterator

import pytest

from tests.emulator.fetching.raw_server import RawServer, raw_server


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as one:
        yield one
