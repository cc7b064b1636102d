"""The query and the path of a page: filters, named as the flags of the command line, and ids of any characters."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.convertors import Convertor, register_url_convertor
from typing_extensions import override

from receiver.core.deliveries import DeliveryFilter, LookEnd, QuarantineFilter
from receiver.core.jobs import JobFilter, JobState
from receiver.core.subjects import parse_query
from receiver.core.text import storable
from receiver.core.types import DeliveryState, Globs, WorkState
from receiver.core.units import parse_moment
from receiver.core.work import WorkFilter

PAGE_SIZE = 50
EXAMINED = 25_000
"""Rows that a list examines for one page: about a tenth of a second where few of them match."""
_MAX_VALUE = 500
_MAX_ERROR = 1_500
_MAX_DIGITS = 19

State = TypeVar("State", bound=StrEnum)


class WrongFilter(ValueError):
    """A value of the query cannot be read; the message is for the page."""


@dataclass(frozen=True, slots=True)
class Query:
    """The values of a page. Empty ones are absent. A text has at most 500 characters, and every store takes it."""

    given: Mapping[str, str]

    def text(self, name: str, longest: int = _MAX_VALUE) -> str | None:
        """Return a value; None if it is absent."""
        value = self.given.get(name, "").strip()
        if len(value) > longest:
            raise WrongFilter(f"{name} is too long")
        return storable(value) or None

    def moment(self, name: str, now: datetime) -> datetime | None:
        """Return a moment, absolute or as a duration before now."""
        written = self.text(name)
        try:
            return None if written is None else parse_moment(written, now)
        except ValueError as exc:
            raise WrongFilter(f"{name}: {exc}") from None

    def state(self, states: type[State]) -> State | None:
        """Return the state that is asked for."""
        written = self.text("state")
        if written is None:
            return None
        if written not in list(states):
            raise WrongFilter(f"there is no state {written!r}; there are {', '.join(states)}")
        return states(written)

    def globs(self, name: str) -> Globs | None:
        """Return one or several globs with commas between them."""
        written = self.text(name)
        globs = tuple(part.strip() for part in (written or "").split(",") if part.strip())
        return globs or None

    def before(self) -> int | None:
        """Return where the page begins; None for the first page."""
        return self.number("before")

    def number(self, name: str) -> int | None:
        """Return a number that a row can have; None if it is absent."""
        written = self.text(name)
        if written is None:
            return None
        if not (written.isascii() and written.isdigit() and len(written) < _MAX_DIGITS):
            raise WrongFilter(f"{name} is not the number of a row")
        return int(written)

    def numbers(self, name: str, most: int) -> tuple[int, ...]:
        """Return several numbers of rows."""
        written = (self.text(name, most * (_MAX_DIGITS + 2)) or "").replace(",", " ").split()
        if len(written) > most or not all(
            one.isascii() and one.isdigit() and len(one) < _MAX_DIGITS for one in written
        ):
            raise WrongFilter(f"{name} are up to {most} numbers of rows")
        return tuple(int(one) for one in written)

    def deliveries(self, now: datetime) -> DeliveryFilter:
        """Return the filter of a listing of deliveries."""
        words = self.text("text")
        if words is not None:
            try:
                parse_query(words)
            except ValueError as exc:
                raise WrongFilter(str(exc)) from None
        return DeliveryFilter(
            type=self.text("type"),
            job_id=self.text("job"),
            since=self.moment("since", now),
            until=self.moment("until", now),
            state=self.state(DeliveryState),
            handler=self.globs("handler"),
            failed=self.text("failed") is not None,
            text=words,
        )

    def work(self, now: datetime) -> WorkFilter:
        """Return the filter of a listing of work items, or of an action on them."""
        return WorkFilter(
            type=self.text("type"),
            job_id=self.text("job"),
            since=self.moment("since", now),
            until=self.moment("until", now),
            handler=self.globs("handler"),
            state=self.state(WorkState),
            error=self.text("error", _MAX_ERROR),
            action=self.number("action"),
        )

    def jobs(self, now: datetime) -> JobFilter:
        """Return the filter of a listing of jobs."""
        return JobFilter(
            type=self.text("type"),
            job_id=self.text("job"),
            since=self.moment("since", now),
            until=self.moment("until", now),
            state=self.state(JobState),
        )

    def quarantine(self, now: datetime) -> QuarantineFilter:
        """Return the filter of a listing of the quarantine."""
        return QuarantineFilter(
            reason=self.text("reason"), since=self.moment("since", now), until=self.moment("until", now)
        )

    def with_values(self, **values: object) -> str:
        """Return the query with some values changed; None removes one."""
        changed = {**self.given, **values}
        return urlencode({name: str(value) for name, value in changed.items() if value not in (None, "")})

    def pager(self, places: Sequence[int], end: LookEnd | None = None) -> dict[str, Any]:
        """Return what the links below a list need.

        `places` are the rows that were found: one more than a page shows, if there are so many. `end` is where the
        look for them ended.
        """
        return self.links(places[PAGE_SIZE - 1] if len(places) > PAGE_SIZE else None, end)

    def links(self, after: int | None, end: LookEnd | None) -> dict[str, Any]:
        """Return the same for a next page that begins after this row, or after the end of the look."""
        if end is not None:
            after = end.place
        return {
            "next": None if after is None else self.with_values(before=after),
            "first": self.with_values(before=None),
            "is_first": self.before() is None,
            "end": end,
        }


_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:-]*")
_MARK = "~"
_MAX_NUMBER = 2**63 - 1
"""The largest id that a store can have."""


def segment(outside: str) -> str:
    """Return an id as one segment of a path: as it is if that is safe, else encoded after a `~`.

    The sender chooses the id of a delivery; it may have slashes. A quoted slash would not do:
    servers and proxies decode it before the path is matched. `..` cannot be quoted.
    """
    text = str(outside)
    if _PLAIN.fullmatch(text):
        return text
    return _MARK + urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def from_segment(written: str) -> str:
    """Return the id in a segment. Text that `segment` does not make is taken as it is."""
    if not written.startswith(_MARK):
        return written
    encoded = written.removeprefix(_MARK)
    try:
        return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return written


class IdConvertor(Convertor[str]):
    """An id in the path of a route."""

    regex = "[^/]+"

    @override
    def convert(self, value: str) -> str:
        return storable(from_segment(value))

    @override
    def to_string(self, value: str) -> str:
        return segment(value)


class NumberConvertor(Convertor[int]):
    """The number of a row in the path of a route; a larger one than any row has is as good as the largest."""

    regex = "[0-9]{1,100}"

    @override
    def convert(self, value: str) -> int:
        return min(int(value), _MAX_NUMBER)

    @override
    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("console_id", IdConvertor())
register_url_convertor("console_row", NumberConvertor())
