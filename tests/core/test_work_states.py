"""The table of work states, what is derived from it, and how it is shown."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from receiver.cli.work_items import states as states_command
from receiver.core import work_states
from receiver.core.types import WorkState
from receiver.core.work_states import MOVES, OPERATORS, Cause, ImpossibleMove, next_state

WAITING, QUEUED, HELD, RUNNING = WorkState.WAITING, WorkState.QUEUED, WorkState.HELD, WorkState.RUNNING
DONE, DEAD, SKIPPED = WorkState.DONE, WorkState.DEAD, WorkState.SKIPPED
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (work_states.OPEN, {WAITING, QUEUED, HELD, RUNNING}),
        (work_states.ENDED, {DONE, DEAD, SKIPPED}),
        (work_states.CLAIMABLE, {WAITING}),
        (work_states.LEASED, {RUNNING}),
        (work_states.SKIPPABLE, {WAITING, QUEUED, HELD}),
        (work_states.RETRYABLE, {WAITING, HELD, DEAD, SKIPPED}),
        (work_states.BURIABLE, {WAITING, QUEUED, HELD, DEAD}),
        (work_states.LANE_HEADS, {WAITING, RUNNING}),
        (work_states.RUN_ENDS, {DONE, DEAD}),
    ],
)
def test_sets_of_states_come_from_the_table(states: tuple[WorkState, ...], expected: set[WorkState]) -> None:
    """A change of the table that changes one of them has to be wanted."""
    assert set(states) == expected
    assert list(states) == [state for state in WorkState if state in expected]


def test_a_move_that_the_table_does_not_have_is_refused() -> None:
    """The message says which one."""
    with pytest.raises(ImpossibleMove, match=r"from done by .*CLAIMED"):
        next_state(DONE, Cause.CLAIMED)
    with pytest.raises(ImpossibleMove, match=r"from nothing by .*SUCCEEDED"):
        next_state(None, Cause.SUCCEEDED)


def test_each_cause_is_in_the_table_and_has_a_meaning() -> None:
    """Nothing in the table is left over, and each cause is explained in a sentence."""
    assert {cause for _, cause in MOVES} == set(Cause)
    assert all(cause.meaning.endswith(".") for cause in Cause)


def test_a_new_item_can_come_into_each_state() -> None:
    """Along the moves of the table."""
    assert reached(None, set(Cause)) == set(WorkState)


def test_nothing_leaves_done() -> None:
    """A handler that succeeded does not run again on the same item."""
    assert reached(DONE, set(Cause)) == set()


@pytest.mark.parametrize("state", work_states.ENDED)
def test_only_an_operator_changes_an_item_that_has_ended(state: WorkState) -> None:
    """No worker touches it."""
    assert reached(state, set(Cause) - set(OPERATORS)) == set()


@pytest.mark.parametrize("state", work_states.OPEN)
def test_an_open_item_can_always_succeed(state: WorkState) -> None:
    """Without an operator."""
    assert DONE in reached(state, set(Cause) - set(OPERATORS))


@pytest.mark.parametrize("state", [WAITING, DONE, DEAD])
def test_the_end_of_an_attempt_has_one_cause(state: WorkState) -> None:
    """Which follows from the state that it leads to."""
    assert next_state(RUNNING, work_states.end_cause(state)) is state


@pytest.mark.parametrize("state", [DONE, DEAD])
def test_a_recorded_run_has_one_cause(state: WorkState) -> None:
    """Which follows from the state that it leads to."""
    assert next_state(None, work_states.record_cause(state)) is state


def test_no_attempt_ends_in_another_state() -> None:
    """Neither one that ran in a worker nor one that is recorded."""
    with pytest.raises(ImpossibleMove):
        work_states.end_cause(SKIPPED)
    with pytest.raises(ImpossibleMove):
        work_states.record_cause(WAITING)


def test_the_command_prints_every_row_of_the_table() -> None:
    """The state before, the cause, the state after, and the meaning."""
    result = CliRunner().invoke(states_command, [])

    assert result.exit_code == 0
    rows = result.stdout.splitlines()[1:]
    assert len(rows) == len(MOVES)
    for (before, cause), after in MOVES.items():
        (row,) = [one for one in rows if one.startswith(f"{before or '-':<9}{cause:<22}")]
        assert row.split(cause, 1)[1].split()[0] == after
        assert row.endswith(cause.meaning)


def test_the_map_for_contributors_shows_the_picture_that_the_command_prints() -> None:
    """Run `receiver work-items states --mermaid` and paste what it prints."""
    result = CliRunner().invoke(states_command, ["--mermaid"])

    assert result.exit_code == 0
    assert f"```mermaid\n{result.stdout}```\n" in CONTRIBUTING.read_text(encoding="utf-8")


def reached(start: WorkState | None, causes: set[Cause]) -> set[WorkState]:
    """Return the states that can follow, by these causes alone."""
    found: set[WorkState] = set()
    edge: set[WorkState | None] = {start}
    while edge:
        after = {state for (before, cause), state in MOVES.items() if before in edge and cause in causes}
        edge = {*(after - found)}
        found |= after
    return found
