"""Dead work items in groups: equal failures of one handler are one line, however many there are."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.text import literal, shortened
from receiver.core.types import HandlerName
from receiver.core.work import NO_REASON, WorkSummary

_NUMBER = re.compile(r"([0-9]+)")
EXAMINED = 2_000
"""Dead items that are looked at, the newest."""
_ERROR_WIDTH = 160


@dataclass(slots=True)
class DeadGroup:
    """Dead items of one handler with the same error."""

    handler: HandlerName
    error: str
    first_at: datetime
    """When the delivery of the oldest one arrived."""
    last_at: datetime
    """When the delivery of the newest one arrived."""
    kind: str
    """The error without its numbers."""
    pattern: str
    """A glob that the errors of the group match: each number may be another one."""
    ids: list[int] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    holds_lanes: bool = False
    """Whether one of them holds its lane, so that burying changes something."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ids)


def grouped(items: Iterable[WorkSummary]) -> list[DeadGroup]:
    """Return the groups of dead items, the largest first."""
    groups: dict[tuple[str, str], DeadGroup] = {}
    for one in items:
        whole = one.last_error or one.note or NO_REASON
        error = shortened(whole.partition("\n")[0], _ERROR_WIDTH)
        kind = _kind(error)
        group = groups.get((one.handler, kind))
        if group is None:
            group = DeadGroup(one.handler, error, one.received_at, one.received_at, kind, _pattern(whole))
            groups[one.handler, kind] = group
        group.first_at = min(group.first_at, one.received_at)
        group.last_at = max(group.last_at, one.received_at)
        group.ids.append(one.id)
        group.types.add(one.type)
        group.holds_lanes |= one.holds_lane
    return sorted(groups.values(), key=lambda group: (-group.count, group.handler, group.error))


def _kind(error: str) -> str:
    """Return an error without its numbers, so that `row 17` and `row 18` are one group."""
    return _NUMBER.sub("#", error)


def _pattern(error: str) -> str:
    """Return a glob for errors that differ only in their numbers, or behind what a group shows."""
    line, end, _ = error.partition("\n")
    is_cut = end or len(line) >= _ERROR_WIDTH
    parts = enumerate(_NUMBER.split(line[: _ERROR_WIDTH - 1]))  # a text and a number in turn
    return "".join("[0-9]*" if at % 2 else literal(part) for at, part in parts) + ("*" if is_cut else "")
