"""A call of the service as plain values: the request, and how to read the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Pages of results have up to 10 MiB; a base64 PDF can be larger."""
ANSWERED_WITHIN = timedelta(seconds=60)
"""How long a call may take, unless the service works longer on it."""


@dataclass(frozen=True, slots=True)
class ServiceCall(Generic[T]):
    """One operation of the service."""

    method: str
    """HTTP method."""
    path: str
    """Path below the service's address, ids quoted."""
    read: Callable[[Mapping[str, Any]], T]
    """Makes the result from the answer's JSON object. A ValueError means an undocumented form."""
    query: Mapping[str, str | int] = field(default_factory=dict)
    """Parameters of the query."""
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON object to send, None for no body."""
    parts: Mapping[str, Any] | None = field(default=None, repr=False)
    """Parts of a multipart body, instead of `body`: name, content and media type of each, as httpx takes them."""
    repeatable: bool = False
    """Whether a second call does no more than the first."""
    idempotency_key: str | None = None
    """Makes the service refuse a second start of the same job."""
    answered_within: timedelta = ANSWERED_WITHIN
    """How long one attempt may take, from its connection to the last byte of its answer."""
    max_answer_bytes: int = MAX_ANSWER_BYTES
    """The most bytes of an answer."""
    about_job: bool = False
    """Whether `success` in the answer speaks of a job, not of the call."""
    next: Callable[[T], str | None] | None = field(default=None, repr=False)
    """Finds the address of the next page in a result; None for an operation without pages."""
    items: Callable[[T], Sequence[Any]] | None = field(default=None, repr=False)
    """Finds what a page contains; given together with `next`."""


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """An answer of the service."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Header names in lower case."""
    body: bytes = field(repr=False)
    """The body, uncompressed."""


def part(name: str, value: str) -> str:
    """Return an id as one part of a path. A ValueError refuses a text that cannot be an id."""
    if not value or value in (".", ".."):
        raise ValueError(f"{name}: an id is a text, not {value!r}")
    return quote(value, safe="")


def limits(**given: tuple[int | None, int, int | None]) -> dict[str, str | int]:
    """Return the query for the numbers that are not None. Each is given with its lowest and highest value.

    A ValueError names the number that is out of its bounds.
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
