"""The account operations of both versions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx

from receiver.core.clock import VirtualClock
from receiver.emulator.account.account import TeamQueue
from receiver.emulator.account.keys import team_of_key
from receiver.emulator.api.account import AccountOperations
from receiver.emulator.api.calls import ApiOperation
from receiver.emulator.app import Emulator, EmulatorParts
from receiver.emulator.options import EmulatorOptions
from tests.doubles import NOON
from tests.emulator.api.calling import BASE, KEY

TEAM = team_of_key(b"fc-test")


class BusyQueue:
    """Two pages are scraped, three wait."""

    async def queue_of(self, team: str) -> TeamQueue:
        return TeamQueue(active=2, waiting=3, last_success=NOON) if team == TEAM else TeamQueue()


@asynccontextmanager
async def account() -> AsyncIterator[tuple[httpx.AsyncClient, EmulatorParts, VirtualClock]]:
    def operations(parts: EmulatorParts) -> list[ApiOperation]:
        return AccountOperations(parts.ledger, BusyQueue(), parts.clock, max_concurrency=7).operations()

    clock = VirtualClock(NOON)
    emulator = Emulator(EmulatorOptions(credits=1000), clock=clock, operations=operations)
    transport = httpx.ASGITransport(emulator)
    async with (
        emulator.lifespan() as parts,
        httpx.AsyncClient(transport=transport, base_url=BASE, headers=KEY) as client,
    ):
        yield client, parts, clock


async def test_credits_and_tokens_of_version_2() -> None:
    """A token is a fifteenth of a credit; the period is the month."""
    async with account() as (client, parts, _):
        await parts.ledger.charge(TEAM, 100)
        credits_ = (await client.get("/v2/team/credit-usage")).json()
        tokens = (await client.get("/v2/team/token-usage")).json()

    period = {
        "billingPeriodStart": "2026-08-01T00:00:00.000Z",
        "billingPeriodEnd": "2026-09-01T00:00:00.000Z",
    }
    assert credits_ == {"success": True, "data": {"remainingCredits": 900, "planCredits": 1000, **period}}
    assert tokens == {"success": True, "data": {"remainingTokens": 13_500, "planTokens": 15_000, **period}}


async def test_credits_of_version_1_are_in_snake_case() -> None:
    """As its SDK reads them."""
    async with account() as (client, _, _):
        data = (await client.get("/v1/team/credit-usage")).json()["data"]

    assert data == {
        "remaining_credits": 1000,
        "plan_credits": 1000,
        "billing_period_start": "2026-08-01T00:00:00.000Z",
        "billing_period_end": "2026-09-01T00:00:00.000Z",
    }


async def test_the_history_has_a_period_for_each_month() -> None:
    """With the key only if that is asked for, and never the key itself."""
    async with account() as (client, parts, clock):
        await parts.ledger.charge(TEAM, 5)
        clock.advance(timedelta(days=150))
        await parts.ledger.charge(TEAM, 7)
        plain = (await client.get("/v2/team/credit-usage/historical")).json()
        by_key = (await client.get("/v2/team/token-usage/historical?byApiKey=true")).json()

    assert plain == {
        "success": True,
        "periods": [
            {"startDate": "2026-08-01T00:00:00.000Z", "endDate": "2026-09-01T00:00:00.000Z", "creditsUsed": 5},
            {"startDate": "2027-01-01T00:00:00.000Z", "endDate": "2027-02-01T00:00:00.000Z", "creditsUsed": 7},
        ],
    }
    assert [one["tokensUsed"] for one in by_key["periods"]] == [75, 105]
    assert {one["apiKey"] for one in by_key["periods"]} == {f"key of team {TEAM[:8]}"}


async def test_a_new_team_has_one_empty_period() -> None:
    """So there is always one to show, also in December."""
    async with account() as (client, _, clock):
        clock.advance(timedelta(days=130))
        (period,) = (await client.get("/v2/team/credit-usage/historical")).json()["periods"]

    assert period == {
        "startDate": "2026-12-01T00:00:00.000Z",
        "endDate": "2027-01-01T00:00:00.000Z",
        "creditsUsed": 0,
    }


async def test_the_queue_is_told_by_team() -> None:
    """What runs, what waits, and how much may run."""
    async with account() as (client, _, _):
        queue = (await client.get("/v2/team/queue-status")).json()
        concurrency = (await client.get("/v2/concurrency-check")).json()
        other = (await client.get("/v1/concurrency-check", headers={"Authorization": "Bearer x"})).json()

    assert queue == {
        "success": True,
        "jobsInQueue": 5,
        "activeJobsInQueue": 2,
        "waitingJobsInQueue": 3,
        "maxConcurrency": 7,
        "mostRecentSuccess": "2026-08-04T12:00:00.000Z",
    }
    assert concurrency == {"success": True, "concurrency": 2, "maxConcurrency": 7}
    assert other["concurrency"] == 0
