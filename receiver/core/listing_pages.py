"""A page of a listing that is found in bounded work."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class LookEnd:
    """The oldest row that was examined, where older rows are left."""

    place: int
    """Its seq or its id. The next look begins behind it."""
    received_at: datetime
    """When its delivery arrived."""


@dataclass(frozen=True, slots=True)
class ListingPage(Generic[Row]):
    """The newest rows that fit a filter, as far as they were looked for."""

    rows: tuple[Row, ...]
    """The newest first, at most as many as the limit of the filter."""
    end: LookEnd | None = None
    """Where the look ended before it had found as many. None where it found them, or examined all older rows."""
