"""Keys, credits, rate limits, idempotency keys."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.account import account as credit_tables
from receiver.emulator.account import keys as idempotency_tables
from receiver.emulator.account.account import (
    PER_MINUTE,
    PLAN_FACTORS,
    CreditLedger,
    MonthOfCredits,
    RateLimits,
    affordable,
    needed_credits,
    require_credits,
)
from receiver.emulator.account.keys import OPEN_TEAM, ApiKeys, IdempotencyKeys, team_of_key
from receiver.emulator.failures import CallRefused
from receiver.emulator.state.database import StateDatabase
from tests.cases import for_each
from tests.doubles import NOON

KEY = "019f2c10-0000-7000-8000-000000000001"


@pytest.fixture
async def state() -> AsyncIterator[StateDatabase]:
    async with StateDatabase(None, [credit_tables.SCHEMA, idempotency_tables.SCHEMA]) as database:
        yield database


@for_each("header", [None, "", "Bearer", "Bearer ", "bearer   ", "Basic abc", "fc-key"])
def test_a_call_needs_a_bearer_key(header: str | None) -> None:
    """Without one the answer is 401."""
    with pytest.raises(CallRefused, match="Token missing") as caught:
        ApiKeys().team_of(header)

    assert caught.value.status == 401


def test_every_key_passes_unless_some_are_configured() -> None:
    """Also `None`, which the SDK of version 1 sends without a key."""
    assert ApiKeys().team_of("Bearer None") == team_of_key(b"None")
    keys = ApiKeys(["fc-one", "fc-two"])

    assert keys.team_of("bearer fc-two") == team_of_key(b"fc-two")
    for wrong in ("Bearer fc-three", "Bearer None", "Bearer fc-tw\udcffo", "Bearer \xe9"):
        with pytest.raises(CallRefused, match="Invalid token") as caught:
            keys.team_of(wrong)
        assert caught.value.status == 401


def test_a_team_tells_nothing_about_its_key() -> None:
    """And with open access, calls without a key have a team too."""
    assert "fc-secret" not in team_of_key(b"fc-secret")
    assert team_of_key(b"a") != team_of_key(b"b")
    assert ApiKeys(["k"], open_access=True).team_of(None) == OPEN_TEAM
    assert ApiKeys(["k"], open_access=True).team_of("Bearer k") == team_of_key(b"k")


def test_the_sdk_of_version_1_has_no_key_where_it_says_so() -> None:
    """With open access its `None` is a call without a key, unless that is a key."""
    assert ApiKeys(["k"], open_access=True).team_of("Bearer None") == OPEN_TEAM
    assert ApiKeys(open_access=True).team_of("Bearer None") == OPEN_TEAM
    assert ApiKeys(["None"], open_access=True).team_of("Bearer None") == team_of_key(b"None")


async def test_credits_are_taken_off_and_counted_by_month(state: StateDatabase) -> None:
    """They never go below 0, and every team has its own."""
    clock = VirtualClock(NOON)
    ledger = CreditLedger(state, clock, initial=10)

    await ledger.charge("a", 3)
    await ledger.charge("a", 0)
    clock.advance(timedelta(days=31))
    await ledger.charge("a", 100)

    assert (await ledger.remaining("a"), await ledger.remaining("b")) == (0, 10)
    assert await ledger.months("a") == [
        MonthOfCredits(datetime(2026, 8, 1, tzinfo=UTC), 3),
        MonthOfCredits(datetime(2026, 9, 1, tzinfo=UTC), 100),
    ]


async def test_credits_can_be_set(state: StateDatabase) -> None:
    """For one team, or for all, also those that come later, until everything is forgotten."""
    ledger = CreditLedger(state, VirtualClock(NOON), initial=10)

    await ledger.set_remaining("a", 5)
    assert (await ledger.remaining("a"), await ledger.remaining("b")) == (5, 10)
    await ledger.set_remaining(None, 7)
    assert (await ledger.remaining("a"), await ledger.remaining("b")) == (7, 7)
    ledger.forget_all()
    assert await ledger.remaining("c") == 10


@for_each(
    ("path", "body", "needed"),
    [
        ("/v1/scrape", {}, 1),
        ("/v2/scrape", {}, 1),
        ("/v2/crawl", {"limit": 500}, 1),
        ("/v2/batch/scrape", {"urls": ["a", "b", "c"]}, 3),
        ("/v1/batch/scrape", {"urls": "a"}, 1),
        ("/v2/map", {}, 1),
        ("/v2/extract", {}, 20),
        ("/v2/agent", {}, 20),
        ("/v2/monitor", {}, 0),
        ("/v2/crawl/params-preview", {}, 0),
    ],
)
def test_a_call_needs_credits(path: str, body: dict[str, Any], needed: int) -> None:
    """With fewer the answer is 402."""
    assert needed_credits(path, body) == needed
    require_credits(path, body, needed)
    if needed:
        with pytest.raises(CallRefused, match="Insufficient credits") as caught:
            require_credits(path, body, needed - 1)
        assert caught.value.status == 402


def test_the_limit_of_a_crawl_is_lowered_to_what_is_left() -> None:
    """Also the default one; a wrong limit stays for the reader to refuse."""
    assert affordable("/v2/crawl", {"limit": 50}, 7) == {"limit": 7}
    assert affordable("/v1/crawl", {}, 7) == {"limit": 7}
    assert affordable("/v2/crawl", {"limit": 5}, 7) == {"limit": 5}
    assert affordable("/v2/crawl", {}, 100_000) == {}
    assert affordable("/v2/crawl", {"limit": "50"}, 7) == {"limit": "50"}
    assert affordable("/v2/map", {"limit": 50}, 7) == {"limit": 50}


@for_each("plan", list(PLAN_FACTORS))
@for_each("kind", list(PER_MINUTE))
def test_a_plan_limits_the_calls_of_a_minute(plan: str, kind: str) -> None:
    """By team and kind; the window lasts a minute of the emulator's clock."""
    clock = VirtualClock(NOON)
    rates = RateLimits(clock, plan)
    most = PER_MINUTE[kind] * PLAN_FACTORS[plan]
    if most > 1000:
        return

    for _ in range(most):
        rates.count("a", kind)
    clock.advance(timedelta(seconds=18))
    with pytest.raises(CallRefused) as caught:
        rates.count("a", kind)

    assert (caught.value.status, caught.value.headers) == (429, {"Retry-After": "42"})
    assert "retry after 42s" in caught.value.error
    assert f"Consumed (req/min): {most + 1}" in caught.value.error
    rates.count("b", kind)
    clock.advance(timedelta(seconds=42))
    rates.count("a", kind)


def test_without_a_plan_nothing_is_limited() -> None:
    """Nor are kinds that have no limit."""
    for rates, kind in ((RateLimits(VirtualClock(), None), "crawl"), (RateLimits(VirtualClock(), "free"), "other")):
        for _ in range(20):
            rates.count("a", kind)


def test_rate_windows_can_be_forgotten() -> None:
    """As a reset does."""
    rates = RateLimits(VirtualClock(), "free")
    for _ in range(2):
        rates.count("a", "crawl")
    rates.forget_all()
    rates.count("a", "crawl")


async def test_an_idempotency_key_is_used_once(state: StateDatabase) -> None:
    """By each team; a UUID is the same in any spelling."""
    keys = IdempotencyKeys(state)
    await keys.use("a", KEY)
    await keys.use("b", KEY)

    with pytest.raises(CallRefused, match="Idempotency key already used") as caught:
        await keys.use("a", KEY.upper())
    assert caught.value.status == 409
    await keys.give_back("a", KEY)
    await keys.use("a", KEY)
    for wrong in ("", "5", "not-a-uuid", "019f2c10\x00"):
        with pytest.raises(CallRefused) as caught:
            await keys.use("a", wrong)
        assert caught.value.status == 400
