"""Actions on many rows: their plans, the place in a long reading, and what is imported."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from receiver.core.deliveries import Delivery, StoredDelivery
from receiver.core.types import HandlerName, Origin, WorkState
from receiver.core.work import WorkSummary

MAX_KINDS = 1_000
"""Types that a plan counts one by one; they come from outside, and memory is bounded."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far somebody has read stored deliveries: up to this `seq`, and job by job up to it within this job.

    As text, `17` or `17:job-id`, it fits in a command line.
    """

    seq: int
    job_id: str | None = None

    @classmethod
    def at(cls, stored: StoredDelivery, *, by_job: bool = False) -> Self:
        """Return the place just after this delivery, in the order in which it was read."""
        return cls(stored.seq, stored.delivery.job_id if by_job else None)

    @classmethod
    def parse(cls, written: str) -> Self:
        """Return the cursor that is written so; ValueError when none is."""
        seq, colon, job_id = written.partition(":")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 20) or (colon and not job_id):
            raise ValueError(f"{written!r} is no place to go on from; write the one that was said, as 17 or 17:JOB")
        return cls(int(seq), job_id or None)

    def __str__(self) -> str:
        return str(self.seq) if self.job_id is None else f"{self.seq}:{self.job_id}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A delivery from outside, with the duplicates that were counted where it comes from.

    It is stored with this `origin`, IMPORT or BACKFILL, whatever its own says.
    """

    delivery: Delivery
    duplicates: int = 0
    origin: Origin = Origin.IMPORT


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """What a mass action on deliveries is about to touch.

    `size` is that of all bodies in bytes, as they came; `types` has the most frequent ones and `others` counts the
    rest; `without_body` is how many of them have a body that was pruned.
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
    """What work items are counted by."""

    handler: HandlerName
    type: str
    state: WorkState


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """What a mass action on work items is about to touch: `kinds` has the most frequent, `others` counts the rest.

    Their ids lie from `first_id` through `last_id`.
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
