"""The credits that a team needs before a call begins, else the answer is 402."""

from collections.abc import Callable
from typing import Any

from receiver.service.emulator.failures import CallRefused

Json = dict[str, Any]

_CRAWL_LIMIT = 10_000
_CRAWLS = frozenset({"/v1/crawl", "/v2/crawl"})
_NEEDS: dict[str, Callable[[Json], int]] = {
    "crawl": lambda body: 1,
    "batch/scrape": lambda body: _length(body.get("urls")),
    "extract": lambda body: 20,
    "agent": lambda body: 20,
    "browser": lambda body: 2,
    "scrape": lambda body: 1,
    "map": lambda body: 1,
    "search": lambda body: 1,
    "parse": lambda body: 1,
}
"""The fewest credits by what follows the version in the path. What is not here can begin without any."""


def needed_credits(path: str, body: Json) -> int:
    """Return the fewest credits for a POST to a path such as `/v2/crawl`."""
    needs = _NEEDS.get(path.split("/", 2)[-1])
    return 0 if needs is None else needs(body)


def require_credits(path: str, body: Json, remaining: int) -> None:
    """Refuse with status 402 a call for which too few credits are left."""
    needed = needed_credits(path, body)
    if needed > remaining:
        raise CallRefused(402, f"Insufficient credits: this request needs {needed}, and {remaining} are left")


def affordable(path: str, body: Json, remaining: int) -> Json:
    """Return the body of a crawl with its limit lowered to the credits that are left, any other as it is."""
    limit = body.get("limit", _CRAWL_LIMIT)
    if path in _CRAWLS and isinstance(limit, int) and limit > remaining:
        return {**body, "limit": remaining}
    return body


def _length(urls: object) -> int:
    return len(urls) if isinstance(urls, list) else 1
