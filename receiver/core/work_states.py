"""The life of a work item: one table of states and causes.

The rules of this file. A work item is in one state of `WorkState`. It changes its state only for a `Cause`, and
`MOVES` names the state that follows. A cause that the table does not name for a state is refused and changes
nothing. Everything else here is read from the table: sets of states, the table in the guide, and the checks that
the tests make on every store.

The theory:

- Claim. One worker at a time runs an item. CLAIMED makes it RUNNING under a lease, and each claim is one attempt.
  Only the worker that has the lease ends the attempt. When that worker stops, it returns the item. When it dies or
  does not renew the lease in time, any worker records the attempt as lost. Leases go by a clock that cannot be set.
- Retry. An attempt that failed sends the item back to WAITING with a later due time, until its schedule is spent.
- Lane. Items of one lane run one after the other. The head of a lane is WAITING or RUNNING, or it is DEAD and stops
  its lane until an operator decides. The others are QUEUED. When the head leaves, LANE_FREED takes the next one.
- Follow. The worker that runs the head may go on with the items behind it, as soon as the handler has returned. The
  transaction that records the head as DONE makes those DONE that have succeeded too, and the next one RUNNING.
- Hold. The terminal event of a job is HELD until the pages of the job are handled. In a lane it then joins the
  queue, where LANE_FREED takes it at once if no other item is the head.
- Switch. While a handler is paused, nothing of it is claimed; no state changes. While it is disabled, its items
  are SKIPPED.
- End. DONE, DEAD and SKIPPED stay until an operator decides. Nothing leaves DONE: a replay makes a new item.
  Pruning removes an item together with its delivery, once all items of the delivery have ended.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from receiver.core.text import table
from receiver.core.types import WorkState


class Cause(StrEnum):
    """Why a work item is in its state. `meaning` says it in a sentence."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> "Cause":
        """Make a string that carries its meaning."""
        cause = str.__new__(cls, value)
        cause._value_ = value
        cause.meaning = meaning
        return cause

    MADE = "made", "A worker routes a delivery, or an operator replays it."
    MADE_CLAIMED = "made and claimed", "A worker routes a delivery and runs the item itself."
    MADE_IN_BUSY_LANE = "made in a busy lane", "Another item is the head of its lane."
    MADE_HELD = "made with a hold", "Its event ends a job, and its handler wants the pages of the job first."
    MADE_DISABLED = "made while disabled", "An operator has disabled its handler."
    RECORDED_SUCCESS = "success recorded", "A handler ran outside the workers and returned."
    RECORDED_FAILURE = "failure recorded", "A handler ran outside the workers and raised."
    HOLD_ENDED = "hold ended", "Every page of its job is handled, or it waited as long as it may."
    HOLD_ENDED_IN_LANE = "hold ended in a lane", "The same, and the item has a lane."
    LANE_FREED = "lane freed", "No item is the head of its lane, and it is the oldest in the queue."
    CLAIMED = "claimed", "It is due, and a worker takes it under a lease."
    FOLLOWED = "followed", "Its worker ran the items before it in its lane, and takes it under a lease."
    SUCCEEDED_BEHIND = "succeeded behind the head", "The same, and its handler has returned already."
    SUCCEEDED = "succeeded", "The handler returned."
    FAILED = "failed", "The handler raised or timed out, and its schedule has another attempt."
    FAILED_FOR_GOOD = "failed for good", "The schedule is spent, the handler gave up, or processes died of it."
    RETURNED = "returned", "The worker stops before the attempt ends. The attempt does not count."
    LEASE_LOST = "lease lost", "The worker died or did not renew its lease. The attempt is recorded as lost."
    DISABLED = "handler disabled", "An operator disables its handler, and a worker looks for work."
    RETRIED = "retried", "An operator asks for a retry. The item has no lane, or is the head of it."
    RETRIED_IN_LANE = "retried in a lane", "An operator asks for a retry. The item joins the queue of its lane."
    BURIED = "buried", "An operator discards it. If it was dead, its lane goes on."


MOVES: Mapping[tuple[WorkState | None, Cause], WorkState] = MappingProxyType(
    {
        (None, Cause.MADE): WorkState.WAITING,
        (None, Cause.MADE_CLAIMED): WorkState.RUNNING,
        (None, Cause.MADE_IN_BUSY_LANE): WorkState.QUEUED,
        (None, Cause.MADE_HELD): WorkState.HELD,
        (None, Cause.MADE_DISABLED): WorkState.SKIPPED,
        (None, Cause.RECORDED_SUCCESS): WorkState.DONE,
        (None, Cause.RECORDED_FAILURE): WorkState.DEAD,
        (WorkState.WAITING, Cause.CLAIMED): WorkState.RUNNING,
        (WorkState.WAITING, Cause.DISABLED): WorkState.SKIPPED,
        (WorkState.WAITING, Cause.RETRIED): WorkState.WAITING,
        (WorkState.WAITING, Cause.BURIED): WorkState.DEAD,
        (WorkState.QUEUED, Cause.LANE_FREED): WorkState.WAITING,
        (WorkState.QUEUED, Cause.FOLLOWED): WorkState.RUNNING,
        (WorkState.QUEUED, Cause.SUCCEEDED_BEHIND): WorkState.DONE,
        (WorkState.QUEUED, Cause.DISABLED): WorkState.SKIPPED,
        (WorkState.QUEUED, Cause.BURIED): WorkState.DEAD,
        (WorkState.HELD, Cause.HOLD_ENDED): WorkState.WAITING,
        (WorkState.HELD, Cause.HOLD_ENDED_IN_LANE): WorkState.QUEUED,
        (WorkState.HELD, Cause.DISABLED): WorkState.SKIPPED,
        (WorkState.HELD, Cause.RETRIED): WorkState.WAITING,
        (WorkState.HELD, Cause.RETRIED_IN_LANE): WorkState.QUEUED,
        (WorkState.HELD, Cause.BURIED): WorkState.DEAD,
        (WorkState.RUNNING, Cause.SUCCEEDED): WorkState.DONE,
        (WorkState.RUNNING, Cause.FAILED): WorkState.WAITING,
        (WorkState.RUNNING, Cause.FAILED_FOR_GOOD): WorkState.DEAD,
        (WorkState.RUNNING, Cause.RETURNED): WorkState.WAITING,
        (WorkState.RUNNING, Cause.LEASE_LOST): WorkState.WAITING,
        (WorkState.DEAD, Cause.RETRIED): WorkState.WAITING,
        (WorkState.DEAD, Cause.RETRIED_IN_LANE): WorkState.QUEUED,
        (WorkState.DEAD, Cause.BURIED): WorkState.DEAD,
        (WorkState.SKIPPED, Cause.RETRIED): WorkState.WAITING,
        (WorkState.SKIPPED, Cause.RETRIED_IN_LANE): WorkState.QUEUED,
    }
)
"""The state that follows, by the state before and the cause. None is before the item is made."""


class ImpossibleMove(ValueError):
    """A work item in this state cannot change for this cause. Nothing has changed."""


def next_state(before: WorkState | None, cause: Cause) -> WorkState:
    """Return the state that follows. Raises ImpossibleMove for a move that the table does not have."""
    try:
        return MOVES[before, cause]
    except KeyError:
        raise ImpossibleMove(f"no work item changes from {before or 'nothing'} by {cause!r}") from None


def states_before(*causes: Cause) -> tuple[WorkState, ...]:
    """Return the states that one of these causes changes, in the order of `WorkState`."""
    return tuple(state for state in WorkState if any((state, cause) in MOVES for cause in causes))


def states_after(*causes: Cause) -> tuple[WorkState, ...]:
    """Return the states to which these causes lead, in the order of `WorkState`."""
    after = {state for (_, cause), state in MOVES.items() if cause in causes}
    return tuple(state for state in WorkState if state in after)


OPERATORS = (Cause.RETRIED, Cause.RETRIED_IN_LANE, Cause.BURIED)
"""The causes that only an operator brings about."""

CLAIMABLE = states_before(Cause.CLAIMED)
"""A worker may claim an item in one of these once it is due."""

LEASED = states_before(Cause.LEASE_LOST)
"""An item in one of these belongs to a worker."""

SKIPPABLE = states_before(Cause.DISABLED)
"""Disabling the handler skips items in these: they have not begun, and no attempt is under way."""

OPEN = states_before(*(cause for cause in Cause if cause not in OPERATORS))
"""An item in one of these runs, or will run."""

ENDED = tuple(state for state in WorkState if state not in OPEN)
"""An item in one of these stays there until an operator decides."""

RETRYABLE = states_before(Cause.RETRIED, Cause.RETRIED_IN_LANE)
"""An operator may retry an item in one of these."""

BURIABLE = states_before(Cause.BURIED)
"""An operator may bury an item in one of these; one that is DEAD only while its lane stands still."""

RETRACTABLE = tuple(state for state in BURIABLE if state is not WorkState.DEAD)
"""An operator may take back an item in one of these, as long as it has had no attempt."""

LANE_HEADS = tuple(state for state in WorkState if state in (*CLAIMABLE, *LEASED))
"""An item of a lane in one of these is its head. One that is DEAD may be the head too."""

RUN_ENDS = states_after(Cause.SUCCEEDED, Cause.FAILED_FOR_GOOD)
"""The states in which a run ends for good."""


def end_cause(state: WorkState) -> Cause:
    """Return the cause by which the end of an attempt leads to this state. Raises ImpossibleMove for others."""
    return _cause(WorkState.RUNNING, state, (Cause.SUCCEEDED, Cause.FAILED, Cause.FAILED_FOR_GOOD))


def record_cause(state: WorkState) -> Cause:
    """Return the cause by which a recorded run begins in this state. Raises ImpossibleMove for others."""
    return _cause(None, state, (Cause.RECORDED_SUCCESS, Cause.RECORDED_FAILURE))


def _cause(before: WorkState | None, after: WorkState, among: Sequence[Cause]) -> Cause:
    for cause in among:
        if MOVES[before, cause] is after:
            return cause
    raise ImpossibleMove(f"none of {', '.join(among)} makes a work item {after}")


def mermaid() -> str:
    """Return the table as a Mermaid state diagram: one arrow for each pair of states."""
    return "\n".join(["stateDiagram-v2", *_arrows(), *(f"    {state} --> [*]: pruned" for state in ENDED)])


def _arrows() -> Iterator[str]:
    causes: dict[tuple[WorkState | None, WorkState], list[Cause]] = {}
    for (before, cause), after in MOVES.items():
        causes.setdefault((before, after), []).append(cause)
    for (before, after), labels in causes.items():
        yield f"    {before or '[*]'} --> {after}: {', '.join(labels)}"


def state_table() -> str:
    """Return the table as Markdown, for the guide."""
    rows = [(before or "", cause, after, cause.meaning) for (before, cause), after in MOVES.items()]
    return table(("state", "cause", "next state", "meaning"), rows)
