"""A work item of a store in memory."""

from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.types import HandlerName, Trigger, WorkerId, WorkState
from receiver.core.work import Attempt
from receiver.core.work_states import LANE_HEADS, LEASED, Cause, next_state


@dataclass(slots=True)
class WorkRow:
    """A work item as it changes. Only `move` changes its state, and only as the table of states allows."""

    id: int
    seq: int
    handler: HandlerName
    due_at: datetime
    first_trigger: Trigger = Trigger.DELIVERY
    lane: str | None = None
    heads_lane: bool = False
    hold_until: datetime | None = None
    recheck_at: datetime | None = None
    worker: WorkerId | None = None
    lease_until: datetime | None = None
    started: bool = False
    attempts: int = 0
    uncounted: int = 0
    lost: int = 0
    deaths: int = 0
    suspect: bool = False
    note: str | None = None
    last_error: str | None = None
    action_id: int | None = None
    history: list[Attempt] = field(default_factory=list)
    _state: WorkState | None = field(default=None, init=False)

    @property
    def state(self) -> WorkState:
        """The state to which the last move led."""
        if self._state is None:
            raise LookupError(f"work item {self.id} has no state before its first move")
        return self._state

    def move(self, cause: Cause) -> None:
        """Change the state. Raises ImpossibleMove, and changes nothing, if the table of states has no such move."""
        self._state = next_state(self._state, cause)
        self.heads_lane = self.lane is not None and self._state in LANE_HEADS

    def lease(self, worker: WorkerId, until: datetime, *, started: bool) -> None:
        """Begin an attempt under a lease."""
        self.worker, self.lease_until, self.started = worker, until, started
        self.attempts += 1

    def end_lease(self) -> None:
        """Forget the worker."""
        self.worker, self.lease_until, self.started = None, None, False

    def leased_by(self, worker: WorkerId) -> bool:
        """Tell whether this worker has the lease."""
        return self.state in LEASED and self.worker == worker

    def trigger(self) -> Trigger:
        """Return why the present attempt runs."""
        return self.first_trigger if self.attempts == 1 else Trigger.RETRY

    def follows(self) -> bool:
        """Tell whether it waits in the queue of its lane, and nobody has attempted it."""
        return self.state is WorkState.QUEUED and self.attempts == 0

    def is_untried(self) -> bool:
        """Tell whether nobody has attempted it since it was made or retried, and no other waits for it."""
        return self.attempts == self.uncounted and not self.heads_lane

    def failed(self) -> bool:
        """Tell whether it is dead or its last attempt failed."""
        return self.state is WorkState.DEAD or self.last_error is not None
