"""Webhooks to public hosts alone: names are checked by what they lead to."""

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.activity import Activity
from receiver.emulator.contracts import WebhookTarget
from receiver.emulator.fetching.network import NetworkZone, Resolve
from receiver.emulator.fetching.refusals import HostNotAllowed
from receiver.emulator.ids import IdSource
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.webhooks import table
from receiver.emulator.webhooks.outbox import Outbox, PublicTransport
from tests.doubles import soon
from tests.emulator.fetching.raw_server import answer, raw_server
from tests.emulator.world import put


def resolving(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "fd00::1"])
async def test_a_name_that_leads_inside_is_skipped(address: str) -> None:
    """Its text is that of any public host. It is never tried again."""
    clock, activity = VirtualClock(), Activity()
    async with (
        StateDatabase(None, [table.SCHEMA]) as state,
        Outbox(
            state,
            clock=clock,
            ids=IdSource(clock, 1),
            to_private=False,
            activity=activity,
            network_clock=VirtualClock(),
            resolve=resolving(address),
        ) as outbox,
    ):
        await put(outbox, state, WebhookTarget("https://hooks.example.com/in"), "crawl.page", "job-1")
        await soon(activity.over())
        [one] = await outbox.deliveries()

    assert (one.state, one.attempts, one.next_attempt_at) == ("skipped", [], None)


async def test_a_name_without_addresses_comes_again() -> None:
    """It is a failure of the network like others."""
    clock, activity = VirtualClock(), Activity()
    async with (
        StateDatabase(None, [table.SCHEMA]) as state,
        Outbox(
            state, clock=clock, ids=IdSource(clock, 1), to_private=False, activity=activity, resolve=resolving()
        ) as outbox,
    ):
        await put(outbox, state, WebhookTarget("https://hooks.example.com/in"), "crawl.page", "job-1")
        await soon(activity.over())
        [one] = await outbox.deliveries()

    assert (one.state, one.attempts[0]["answer"]) == ("retry 1", "https://hooks.example.com/in cannot be reached")


async def test_what_is_allowed_arrives() -> None:
    """Body, headers and answer pass as they are."""
    async with raw_server() as server:
        server.answers["/in?a=1"] = answer(b'{"status":"accepted"}', "X-Own: 1")
        transport = PublicTransport(resolving("127.0.0.1"), frozenset(NetworkZone))
        async with httpx.AsyncClient(transport=transport) as client:
            response = await client.post(f"http://hooks.test:{server.port}/in?a=1", content=b"body")

    assert (response.status_code, response.headers["x-own"], response.json()) == (200, "1", {"status": "accepted"})


async def test_one_that_does_not_listen_is_a_failure_of_the_network() -> None:
    transport = PublicTransport(resolving("127.0.0.1"), frozenset(NetworkZone))
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx.ConnectError):
            await client.post("http://hooks.test:9/", content=b"body")


async def test_an_address_in_the_network_is_refused() -> None:
    async with httpx.AsyncClient(transport=PublicTransport(resolving("10.0.0.1"))) as client:
        with pytest.raises(HostNotAllowed):
            await client.post("https://hooks.example.com/")
