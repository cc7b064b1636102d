"""Groups of dead work items."""

from fnmatch import fnmatchcase

from receiver.core.types import DeliveryKey, HandlerName, WorkState
from receiver.core.work import WorkSummary, grouped
from tests.doubles import NOON


def dead(work_id: int, error: str) -> WorkSummary:
    """Return a dead work item with this error."""
    key, handler = DeliveryKey(f"k{work_id}"), HandlerName("index")
    return WorkSummary(
        work_id, key, "crawl.page", None, NOON, handler, WorkState.DEAD, 8, None, None, last_error=error, note=None
    )


def test_the_pattern_of_a_group_matches_each_of_its_errors() -> None:
    """Whatever they have for numbers: digits of other scripts and raised ones are texts like any other."""
    errors = ["row 17 of 3", "row 4 of 12", "row \u0663", "row \u0664", "5\u00b27", "6\u00b28", "[1] *", "[2] *"]

    groups = grouped([dead(number, error) for number, error in enumerate(errors)])

    assert [group.count for group in groups] == [2, 2, 2, 1, 1]
    for group in groups:
        assert all(fnmatchcase(errors[number], group.pattern) for number in group.ids), group.kind
