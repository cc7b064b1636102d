"""Threat protection: which URLs are blocked, by lists and by the score of a risk service."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from receiver.emulator.failures import ScrapeFailed

Json = dict[str, Any]

CHECK_CREDITS = 2
"""What the check of one URL costs in mode `normal`."""
_THRESHOLD = 70
_SECONDS = 5.0
_MOST_ANSWER = 64 * 1024


class UnsafeUrl(ScrapeFailed):
    """A URL that threat protection blocks. `credits` is what the check costs all the same."""

    def __init__(self, reason: str, cost: int) -> None:
        super().__init__("unsafe_domain_blocked", f"This URL is blocked by threat protection: {reason}")
        self.credits = cost


class ThreatGuard:
    """Checks URLs by the policy of the organisation, or by what a request sets in its place.

    The organisation has mode `normal` if threat protection is on, failurePolicy `open`, threshold 70, and no lists.
    """

    def __init__(self, *, enabled: bool, risk_url: str | None, client: httpx.AsyncClient) -> None:
        self._enabled = enabled
        self._risk_url = risk_url
        self._client = client

    async def check(self, url: str, override: Json | None = None) -> int:
        """Return the credits of the check. Raises UnsafeUrl, which also has them, if the URL is blocked.

        White lists come before all else, then black lists and top-level domains; the risk service is asked last.
        """
        policy = override or {}
        if not self._enabled or policy.get("mode", "normal") == "off":
            return 0
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
        if any(fits(host, pattern) for pattern in policy.get("whitelist", ())):
            return 0
        if any(fits(host, pattern) for pattern in policy.get("blacklist", ())):
            raise UnsafeUrl("its domain is on the blacklist", 0)
        if any(host.endswith(f".{tld}") for tld in policy.get("blockedTlds", ())):
            raise UnsafeUrl("its top-level domain is blocked", 0)
        await self._classify(url, policy)
        return CHECK_CREDITS

    async def _classify(self, url: str, policy: Json) -> None:
        score = await self._score(url)
        if score is None:
            if policy.get("failurePolicy", "open") == "closed":
                raise UnsafeUrl("the risk service cannot be reached, and failurePolicy is closed", CHECK_CREDITS)
        elif score >= policy.get("riskScoreThreshold", _THRESHOLD):
            raise UnsafeUrl(f"its risk score is {score:g}", CHECK_CREDITS)

    async def _score(self, url: str) -> float | None:
        """Return the score of the risk service, None if it gives none."""
        if self._risk_url is None:
            return None
        try:
            answer = await self._client.get(self._risk_url, params={"url": url}, timeout=_SECONDS)
            answer.raise_for_status()
            if len(answer.content) > _MOST_ANSWER:
                return None
            score: object = answer.json()["score"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError, RecursionError):
            return None
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 100:
            return None
        return float(score)


def fits(host: str, pattern: str) -> bool:
    """Return whether a host is the domain of a pattern, in which `*` stands for any characters."""
    first, *rest = pattern.rstrip(".").lower().split("*")
    if not rest:
        return host == first
    return host.startswith(first) and _fit_in_turn(host[len(first) :], rest)


def _fit_in_turn(text: str, parts: Sequence[str]) -> bool:
    """Return whether the parts follow one another, the last one at the end. The first place is the best one."""
    *middle, last = parts
    for part in middle:
        place = text.find(part)
        if place < 0:
            return False
        text = text[place + len(part) :]
    return text.endswith(last)
