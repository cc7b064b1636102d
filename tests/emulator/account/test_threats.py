"""Threat protection: lists, top-level domains, risk scores, failurePolicy."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.account.threats import CHECK_CREDITS, ThreatGuard, UnsafeUrl, fits
from tests.cases import for_each

URL = "https://shop.example.com/x"
RISK = "http://risk.test/score"


async def check(
    override: dict[str, Any] | None = None,
    *,
    url: str = URL,
    answer: Callable[[httpx.Request], httpx.Response] | None = None,
    enabled: bool = True,
) -> int:
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer or _unexpected)) as client:
        guard = ThreatGuard(enabled=enabled, risk_url=RISK if answer else None, client=client)
        return await guard.check(url, override)


def _unexpected(request: httpx.Request) -> httpx.Response:
    raise AssertionError("nobody is to be asked")


def score(value: object) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(200, json={"score": value, "for": request.url.params["url"]})


@pytest.mark.parametrize(
    ("override", "reason", "fee"),
    [
        ({"blacklist": ["shop.example.com"]}, "blacklist", 0),
        ({"blacklist": ["*.example.com"]}, "blacklist", 0),
        ({"blacklist": ["SHOP.*"]}, "blacklist", 0),
        ({"blockedTlds": ["zip", "com"]}, "top-level domain", 0),
        ({"failurePolicy": "closed"}, "cannot be reached", CHECK_CREDITS),
    ],
)
async def test_a_url_is_blocked(override: dict[str, Any], reason: str, fee: int) -> None:
    """With the service's code and status; a check that was made costs all the same."""
    with pytest.raises(UnsafeUrl, match=reason) as caught:
        await check(override)

    assert (caught.value.code, caught.value.status, caught.value.credits) == ("unsafe_domain_blocked", 403, fee)


@pytest.mark.parametrize(
    ("override", "cost"),
    [
        (None, CHECK_CREDITS),
        ({}, CHECK_CREDITS),
        ({"failurePolicy": "open"}, CHECK_CREDITS),
        ({"mode": "off", "blacklist": ["shop.example.com"]}, 0),
        ({"whitelist": ["shop.example.com"], "blacklist": ["*"], "blockedTlds": ["com"]}, 0),
        ({"blacklist": ["example.com", "*.example.org"], "blockedTlds": ["om"]}, CHECK_CREDITS),
    ],
)
async def test_a_url_passes(override: dict[str, Any] | None, cost: int) -> None:
    """The white list goes before all else; a plain domain stands for itself alone."""
    assert await check(override) == cost


@pytest.mark.parametrize(
    ("value", "threshold", "blocked"),
    [(0, 1, False), (69, None, False), (70, None, True), (50, 50, True), (49.5, 50, False), (100, 100, True)],
)
async def test_the_score_of_the_risk_service_decides(value: float, threshold: int | None, blocked: bool) -> None:
    """A score that reaches the threshold blocks the URL."""
    override = {} if threshold is None else {"riskScoreThreshold": threshold}
    if blocked:
        with pytest.raises(UnsafeUrl, match="risk score"):
            await check(override, answer=score(value))
    else:
        assert await check(override, answer=score(value)) == CHECK_CREDITS


def _broken(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


@pytest.mark.parametrize(
    "answer",
    [
        _broken,
        lambda request: httpx.Response(500, json={"score": 0}),
        lambda request: httpx.Response(302, headers={"location": "http://elsewhere.test"}),
        lambda request: httpx.Response(200, text="no json"),
        lambda request: httpx.Response(200, json=[]),
        lambda request: httpx.Response(200, json={}),
        lambda request: httpx.Response(200, content=b"[" * 60_000),
        lambda request: httpx.Response(200, content=b" " * 100_000),
        score("5"),
        score(True),
        score(-1),
        score(101),
        score(None),
    ],
)
async def test_without_a_score_the_failure_policy_decides(
    answer: Callable[[httpx.Request], httpx.Response],
) -> None:
    """Whatever the risk service does, it is never a fault of ours."""
    assert await check({"failurePolicy": "open"}, answer=answer) == CHECK_CREDITS
    with pytest.raises(UnsafeUrl, match="cannot be reached"):
        await check({"failurePolicy": "closed"}, answer=answer)


async def test_without_the_feature_nothing_is_checked() -> None:
    """Requests that carry a policy were refused before."""
    assert await check({"blacklist": ["*"]}, enabled=False) == 0


@for_each(
    ("host", "pattern", "fitting"),
    [
        ("a.example.com", "*.example.com", True),
        ("example.com", "*.example.com", False),
        ("a.b.example.com", "*.example.com", True),
        ("a.example.com", "a.*.com", True),
        ("acom", "a*.com", False),
        ("example.com", "*", True),
        ("example.com", "*example*", True),
        ("aa", "a*a*a", False),
        ("example.com", "example.com.", True),
        ("example.com", "EXAMPLE.com", True),
        ("a[b]c", "a[b]c", True),
        ("abc", "a[b]c", False),
    ],
)
def test_a_pattern_fits(host: str, pattern: str, fitting: bool) -> None:
    """Only the star stands for anything else than itself."""
    assert fits(host, pattern) is fitting


@given(st.text("ab."), st.text("ab.*", min_size=1))
def test_patterns_are_those_of_the_shell(host: str, pattern: str) -> None:
    """Compared with an engine of regular expressions; ours takes no longer for many stars."""
    plain = pattern.rstrip(".")
    assert fits(host, pattern) is bool(re.fullmatch(".*".join(map(re.escape, plain.split("*"))), host))
    assert not fits("a" * 50_000, "*a" * 1_000 + "b")
