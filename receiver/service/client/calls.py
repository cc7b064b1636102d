"""A call of the service as plain values: what to send, and how to read what comes back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")

ANSWERED_WITHIN = timedelta(seconds=60)
"""How long a call waits for its answer, unless the service works longer on it."""


@dataclass(frozen=True, slots=True)
class ServiceCall(Generic[T]):
    """One operation of the service.

    `read` makes the result of the answer's JSON object; a ValueError says that it is not as documented.
    `repeatable` says that sending it twice does no more than sending it once. `next` gives the address of the next
    page, for operations that have pages. `about_job` is set where `success` speaks of a job and not of the call.
    """

    method: str
    path: str
    read: Callable[[Mapping[str, Any]], T]
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    repeatable: bool = False
    idempotency_key: str | None = None
    answered_within: timedelta = ANSWERED_WITHIN
    about_job: bool = False
    next: Callable[[T], str | None] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """What came back: header names in lower case, the body unpacked."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def part(name: str, value: str) -> str:
    """Return an id as one part of a path; a ValueError when it could be none."""
    if not value or value in (".", ".."):
        raise ValueError(f"{name}: an id is a text, not {value!r}")
    return quote(value, safe="")


def limits(**given: tuple[int | None, int, int | None]) -> dict[str, str | int]:
    """Return the query for numbers that were given, each with its lowest and highest value.

    A ValueError names the one that is out of its bounds.
    """
    query: dict[str, str | int] = {}
    for name, (value, lowest, highest) in given.items():
        if value is None:
            continue
        if value < lowest or (highest is not None and value > highest):
            bounds = f"{lowest} to {highest}" if highest is not None else f"{lowest} or more"
            raise ValueError(f"{name}: {bounds}, not {value}")
        query[name] = value
    return query
