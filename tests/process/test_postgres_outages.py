"""A web process whose PostgreSQL server cannot be heard: no false answer, no hang, and it goes on by itself."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.harness import STEADY, Deployment, Load, get, post
from tests.stores.postgres.relay import Relay


@pytest.fixture
async def relay(postgres_url: str) -> AsyncIterator[Relay]:
    """A relay in front of the server."""
    async with Relay(postgres_url).open() as relay:
        yield relay


@pytest.fixture
def behind(tmp_path: Path, relay: Relay) -> Deployment:
    """A deployment that reaches its server through the relay."""
    return Deployment(tmp_path, STORE=relay.url, ACK_DEADLINE="1", READ_TIMEOUT="1", **STEADY)


async def test_nothing_is_acknowledged_while_the_server_is_black_holed(
    behind: Deployment, relay: Relay, postgres_url: str
) -> None:
    """Every sender gets 503, and so does who asks whether it is ready. When the server is back, all are stored."""
    load = Load(random.Random(6))
    async with behind.serve("--no-worker") as serving:
        await load.send(serving.port, 3)
        relay.fall_silent()
        await load.send(serving.port, 12)
        assert load.answers == {200: 3, 503: 12}
        assert (await get(serving.port, "/readyz")).status == 503

        relay.speak()
        await serving.becomes_ready()
        await load.send_again(serving.port)
    assert load.answers[503] == 12
    assert set(load.acknowledged.values()) == load.sent
    behind.settings["STORE"] = postgres_url
    load.check_stored(behind.stored())


async def test_a_delivery_whose_commit_was_cut_off_is_a_duplicate_when_it_comes_again(
    behind: Deployment, relay: Relay, postgres_url: str
) -> None:
    """Nobody knows whether it was stored, so the sender is told to try again."""
    body = Load(random.Random(7)).body()
    async with behind.serve("--no-worker") as serving:
        await post(serving.port, Load(random.Random(8)).body())
        relay.cut_instead_of_answers(to=body)
        cut = await post(serving.port, body)
        again = await post(serving.port, body)

    assert relay.dropped.is_set()
    assert (cut.status, again.status) == (503, 200)
    assert again.json()["status"] == "duplicate"
    behind.settings["STORE"] = postgres_url
    assert behind.rows("SELECT duplicates FROM deliveries ORDER BY seq") == [(0,), (1,)]
