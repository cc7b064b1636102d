"""A program that mounts the receiver watches it: by signals in its own process, and by metrics."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from receiver.app import Receiver
from receiver.core.signing import sign
from receiver.settings import Settings
from receiver.signals import contracts as signals
from tests.doubles import LONG, SECRET, body_of
from tests.signals.exposition import Samples, samples

pytestmark = pytest.mark.usefixtures("bare_environment")
BODY = body_of(webhookId="w-1")


@asynccontextmanager
async def mounted(folder: Path, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a receiver below /hooks of another app."""
    receiver = Receiver(Settings(store=f"sqlite:///{folder}/receiver.db", secrets=[SECRET], **settings))
    app = FastAPI()
    app.mount("/hooks", receiver)
    transport = httpx.ASGITransport(app)
    async with receiver.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def deliver(client: httpx.AsyncClient, body: bytes = BODY) -> int:
    answer = await client.post(
        "/hooks/webhooks", content=body, headers={"X-Firecrawl-Signature": sign(body, SECRET)}
    )
    return answer.status_code


async def figures(client: httpx.AsyncClient) -> Samples:
    answer = await client.get("/hooks/metrics")
    assert answer.status_code == 200
    return samples(answer.content)


async def test_subscribers_of_the_mounting_program_see_every_delivery(bare_environment: Path) -> None:
    """All of them before the lifespan is over."""
    seen: list[Any] = []

    async def keep(delivery: signals.DeliveryAccepted) -> None:
        seen.append(delivery.key)

    with signals.delivery_accepted.connected_to(keep):
        async with mounted(bare_environment) as client:
            for number in range(20):
                assert await deliver(client, body_of(webhookId=f"w-{number}")) == 200

    assert seen == [f"w-{number}" for number in range(20)]


async def test_a_subscriber_that_blocks_delays_neither_an_ack_nor_the_end(bare_environment: Path) -> None:
    """An async one that blocks its event loop, as only a mistake does, is no exception."""
    started, end = threading.Event(), threading.Event()

    async def block(delivery: signals.DeliveryAccepted) -> None:
        started.set()
        end.wait(LONG)

    with signals.delivery_accepted.connected_to(block):
        async with mounted(bare_environment) as client:
            assert await deliver(client) == 200
            assert started.wait(LONG)
            assert await deliver(client, body_of(webhookId="w-2")) == 200
        assert not end.is_set()
        end.set()
    assert signals.flush()


async def test_metrics_are_served_below_the_mount(bare_environment: Path) -> None:
    """And count what came there."""
    async with mounted(bare_environment, metrics=True) as client:
        assert await deliver(client) == 200
        assert await deliver(client) == 200
        assert await deliver(client, b"[]") == 400
        found = await figures(client)

    assert found["receiver_deliveries_total", "outcome=accepted", "type=crawl.page"] == 1
    assert found["receiver_deliveries_total", "outcome=duplicate", "type=crawl.page"] == 1
    assert found["receiver_refusals_total", "reason=malformed"] == 1
    assert found["receiver_quarantined_total", "reason=malformed"] == 1
    assert found["receiver_received_bytes_total",] == 2 * len(BODY) + 2
    assert found["receiver_in_flight_bytes",] == 0
    assert found["receiver_answer_seconds_count", "status=2xx"] == 2


async def test_metrics_ask_for_their_token(bare_environment: Path) -> None:
    """Of everybody, once there is one."""
    async with mounted(bare_environment, metrics=True, metrics_token="t") as client:
        assert (await client.get("/hooks/metrics")).status_code == 401
        answer = await client.get("/hooks/metrics", headers={"Authorization": "Bearer t"})
        assert answer.status_code == 200


async def test_without_metrics_the_path_is_as_any_other(bare_environment: Path) -> None:
    """Nothing is there, and nobody watches."""
    async with mounted(bare_environment) as client:
        there, nowhere = [await client.get(f"/hooks/{path}") for path in ("metrics", "nowhere")]
        assert not signals.delivery_accepted.receivers

    assert (there.status_code, there.content) == (nowhere.status_code, nowhere.content)
    assert there.status_code == 404
