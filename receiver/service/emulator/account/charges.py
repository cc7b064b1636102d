"""The credits that a team needs before a call begins, else the answer is 402."""

from collections.abc import Callable
from typing import Any

from receiver.service.emulator.failures import CallRefused

Json = dict[str, Any]

_CRAWL_LIMIT = 10_000
_EXTRACTION, _BROWSER, _OTHER = 20, 2, 1
_NEEDS: dict[str, Callable[[Json], int]] = {
    "crawl": lambda body: 1,
    "batch": lambda body: _length(body.get("urls")),
    "extract": lambda body: _EXTRACTION,
    "agent": lambda body: _EXTRACTION,
    "browser": lambda body: _BROWSER,
    "scrape": lambda body: _OTHER,
    "map": lambda body: _OTHER,
    "search": lambda body: _OTHER,
    "parse": lambda body: _OTHER,
}


def needed_credits(family: str, body: Json) -> int:
    """Return the fewest credits for a call of a family such as `crawl`; 0 for families that cost nothing."""
    needs = _NEEDS.get(family)
    return 0 if needs is None else needs(body)


def require_credits(family: str, body: Json, remaining: int) -> None:
    """Refuse with status 402 a call for which too few credits are left."""
    needed = needed_credits(family, body)
    if needed > remaining:
        raise CallRefused(
            402,
            f"Insufficient credits to perform this request: it needs {needed}, and {remaining} are left. "
            "Set more with `--credits` or POST /_emulator/credits",
        )


def affordable_limit(body: Json, remaining: int) -> Json:
    """Return the body of a crawl with its limit lowered to the credits that are left."""
    limit = body.get("limit", _CRAWL_LIMIT)
    if isinstance(limit, int) and limit > remaining:
        return {**body, "limit": remaining}
    return body


def _length(urls: object) -> int:
    return len(urls) if isinstance(urls, list) else _OTHER
