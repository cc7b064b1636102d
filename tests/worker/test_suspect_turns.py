"""The turns of suspects and of all other work, at given times."""

from datetime import timedelta

from receiver.worker.claiming import SuspectTurns
from tests.doubles import NOON

TURN = timedelta(minutes=1)
MOMENT = timedelta(seconds=1)


def waiting() -> SuspectTurns:
    """Return the turns in a worker that has just seen a suspect."""
    turns = SuspectTurns(TURN)
    turns.check(NOON, due=True)
    return turns


def test_without_suspects_nothing_is_blocked() -> None:
    """No check finds one."""
    turns = SuspectTurns(TURN)
    turns.check(NOON, due=False)
    assert not turns.have_turn
    assert not turns.block_others(NOON)
    assert not turns.may_start(NOON, idle=True)


def test_a_suspect_starts_when_nothing_else_runs() -> None:
    """Nothing else starts before that, nor while it runs."""
    turns = waiting()
    assert turns.block_others(NOON)
    assert not turns.may_start(NOON + MOMENT, idle=False)

    assert turns.may_start(NOON + 2 * MOMENT, idle=True)

    assert turns.block_others(NOON + 2 * MOMENT)
    assert not turns.may_start(NOON + 3 * MOMENT, idle=False)


def test_a_suspect_starts_beside_work_that_does_not_end() -> None:
    """After the time of one turn. Then everything else goes on."""
    turns = waiting()
    assert not turns.may_start(NOON + TURN - MOMENT, idle=False)
    assert turns.may_start(NOON + TURN, idle=False)
    assert not turns.block_others(NOON + TURN)
    assert not turns.may_start(NOON + TURN, idle=False)


def test_suspects_run_for_half_a_turn_and_then_others_for_one() -> None:
    """All other work has a turn, however many suspects are left."""
    turns = waiting()
    assert turns.may_start(NOON, idle=True)
    assert turns.may_start(NOON + TURN / 2 - MOMENT, idle=True)
    assert turns.block_others(NOON + TURN - MOMENT)

    ended = NOON + TURN * 0.75
    assert not turns.may_start(ended, idle=True)
    assert not turns.block_others(ended)

    turns.check(ended + TURN - MOMENT, due=True)
    assert not turns.have_turn
    turns.check(ended + TURN, due=True)
    assert turns.block_others(ended + TURN)
    assert turns.may_start(ended + TURN, idle=True)


def test_a_suspect_that_does_not_end_block_others_for_one_turn_only() -> None:
    """It runs on, and no other suspect starts beside it."""
    turns = waiting()
    assert turns.may_start(NOON, idle=True)
    assert not turns.may_start(NOON + TURN, idle=False)
    assert not turns.block_others(NOON + TURN)
    turns.check(NOON + TURN, due=True)
    assert not turns.have_turn


def test_the_wait_before_a_suspect_does_not_shorten_its_turn() -> None:
    """Other work ran for nearly a turn; the suspect is alone for a whole turn."""
    turns = waiting()
    began = NOON + TURN - MOMENT
    assert turns.may_start(began, idle=True)
    assert turns.block_others(began + TURN - MOMENT)


def test_a_suspect_of_another_worker_blocks_nothing() -> None:
    """All other work has a turn, and then the suspects have one."""
    turns = waiting()
    assert turns.may_start(NOON, idle=True)
    turns.found_none(NOON)
    assert not turns.block_others(NOON)
    turns.check(NOON + MOMENT, due=True)
    assert not turns.have_turn
    turns.check(NOON + TURN, due=True)
    assert turns.may_start(NOON + TURN, idle=True)
