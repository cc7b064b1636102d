"""Actions on many rows: plans, places in a long reading, imported deliveries, and changes of work items."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.types import HandlerName, Origin, WorkState
from receiver.core.work import WorkFilter, WorkSummary
from receiver.core.work_states import BURIABLE, ENDED, RETRACTABLE, RETRYABLE

MAX_KINDS = 1_000
"""Types that a plan counts one by one. Types come from outside, so their number must be bounded."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a long reading of deliveries: up to this `seq`, and when reading job by job, within this job.

    Its text form is `17` or `17:job-id`, for use in a command line.
    """

    seq: int
    job_id: str | None = None

    @classmethod
    def at(cls, stored: StoredDelivery, *, by_job: bool = False) -> Self:
        """Return the place just after this delivery."""
        return cls(stored.seq, stored.delivery.job_id if by_job else None)

    @classmethod
    def parse(cls, written: str) -> Self:
        """Return the cursor that a text stands for. Raises ValueError for any other text."""
        seq, colon, job_id = written.partition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 20) or (colon and not job_id):
            raise ValueError(
                f"{written!r} is not a place to continue from; write the one that was printed, as 17 or 17:JOB"
            )
        return cls(int(seq), job_id or None)

    def __str__(self) -> str:
        return str(self.seq) if self.job_id is None else f"{self.seq}:{self.job_id}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A delivery from outside, with the number of duplicates that its source counted.

    It is stored with this `origin`, IMPORT or BACKFILL, whatever origin the delivery names.
    """

    delivery: Delivery
    duplicates: int = 0
    origin: Origin = Origin.IMPORT


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """What an action on many deliveries is about to touch.

    `size` is the sum of their bodies in bytes, as they arrived. `types` has the most frequent types, and `others`
    counts the deliveries of the rest. `without_body` counts deliveries whose body was pruned.
    """

    count: int
    size: int
    first_at: datetime | None
    last_at: datetime | None
    types: Mapping[str, int]
    others: int
    without_body: int


@dataclass(frozen=True, slots=True)
class WorkKind:
    """What a plan counts work items by."""

    handler: HandlerName
    type: str
    state: WorkState


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """What an action on many work items is about to touch: `kinds` has the most frequent, `others` counts the rest.

    Their ids are in the range from `first_id` through `last_id`.
    """

    count: int
    first_id: int
    last_id: int
    first_at: datetime | None
    last_at: datetime | None
    kinds: Mapping[WorkKind, int]
    others: int

    @classmethod
    def of(cls, items: Sequence[WorkSummary]) -> Self:
        """Return the plan of exactly these items."""
        kinds = Counter(WorkKind(one.handler, one.type, one.state) for one in items)
        in_order = sorted(kinds.items(), key=lambda one: (-one[1], one[0].handler, one[0].type, one[0].state))
        most = dict(in_order[:MAX_KINDS])
        return cls(
            count=len(items),
            first_id=min((one.id for one in items), default=0),
            last_id=max((one.id for one in items), default=0),
            first_at=min((one.received_at for one in items), default=None),
            last_at=max((one.received_at for one in items), default=None),
            kinds=most,
            others=len(items) - sum(most.values()),
        )


@dataclass(frozen=True, slots=True)
class WorkAction:
    """An action on work items.

    `takes` are the states that it changes; `by_default` are those that a filter chooses if it names no state.
    `restarts` says whether the items run again.
    """

    verb: str
    past: str
    takes: tuple[WorkState, ...]
    by_default: tuple[WorkState, ...]
    left_alone: str
    """Why it does not change an item in another state."""
    restarts: bool
    untried: bool = False
    """Whether it takes only items that were not attempted since they were made or retried."""

    def narrowed(self, wanted: WorkFilter) -> WorkFilter:
        """Return the filter for those of the wanted items that it changes."""
        among = self.by_default if wanted.state is None else ()
        return replace(wanted, among=among, stuck=not self.restarts, untried=self.untried)

    def can_change(self, item: WorkSummary) -> bool:
        """Return whether it changes this item. A dead one can be buried only while it holds its lane."""
        if item.state is WorkState.DEAD and not self.restarts:
            return item.holds_lane
        return item.state in self.takes


RETRY = WorkAction(
    "retry",
    "retried",
    takes=RETRYABLE,
    by_default=tuple(state for state in RETRYABLE if state in ENDED),
    left_alone="they run now, are queued in their lane, or have ended",
    restarts=True,
)
BURY = WorkAction(
    "bury",
    "buried",
    takes=BURIABLE,
    by_default=BURIABLE,
    left_alone="they run now or have ended",
    restarts=False,
)
TAKE_BACK = WorkAction(
    "take back",
    "taken back",
    takes=RETRACTABLE,
    by_default=RETRACTABLE,
    left_alone="they have run or are at the head of a lane, or another decision about them came since",
    restarts=False,
    untried=True,
)
"""It undoes the part of a retry or a replay that has not run. Choose by `WorkFilter.action`."""
