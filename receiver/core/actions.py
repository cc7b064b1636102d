"""What a user may do to many work items at one time, and to which of them."""

from dataclasses import dataclass, replace

from receiver.core.types import WorkState
from receiver.core.work import WorkFilter, WorkSummary
from receiver.core.work_states import BURIABLE, ENDED, RETRACTABLE, RETRYABLE


@dataclass(frozen=True, slots=True)
class WorkAction:
    """An action on work items.

    `takes` are the states that it changes; `by_default` are those that a filter chooses if it names no state.
    `restarts` tells whether the items run again.
    """

    verb: str
    past: str
    takes: tuple[WorkState, ...]
    by_default: tuple[WorkState, ...]
    left_alone: str
    """Why it does not change an item in another state."""
    restarts: bool
    untried: bool = False
    """Whether it takes only items that nobody has attempted since they were made or retried."""

    def narrowed(self, wanted: WorkFilter) -> WorkFilter:
        """Return the filter for those of the wanted items that it changes."""
        among = self.by_default if wanted.state is None else ()
        return replace(wanted, among=among, stuck=not self.restarts, untried=self.untried)

    def can_change(self, item: WorkSummary) -> bool:
        """Tell whether it changes this item. A dead one can be buried only while it holds its lane."""
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
    left_alone="they have run or stand at the head of a lane, or somebody has decided about them since",
    restarts=False,
    untried=True,
)
"""It undoes a retry or a replay, as far as that has not run. Choose by `WorkFilter.action`."""
