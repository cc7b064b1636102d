"""The turns of suspects and of all other work, at given times."""

from datetime import timedelta

from receiver.worker.claiming import Isolation
from tests.doubles import NOON

TURN = timedelta(minutes=1)
MOMENT = timedelta(seconds=1)


def waiting() -> Isolation:
    """Return the turns of a worker that has just seen a suspect."""
    isolation = Isolation(TURN)
    isolation.check(NOON, due=True)
    return isolation


def test_without_suspects_nothing_is_blocked() -> None:
    """No check finds one."""
    isolation = Isolation(TURN)
    isolation.check(NOON, due=False)
    assert not isolation.active
    assert not isolation.blocks_others(NOON)
    assert not isolation.may_start(NOON, idle=True)


def test_a_suspect_starts_when_nothing_else_runs() -> None:
    """Nothing else starts before that, nor while it runs."""
    isolation = waiting()
    assert isolation.blocks_others(NOON)
    assert not isolation.may_start(NOON + MOMENT, idle=False)

    assert isolation.may_start(NOON + 2 * MOMENT, idle=True)

    assert isolation.blocks_others(NOON + 2 * MOMENT)
    assert not isolation.may_start(NOON + 3 * MOMENT, idle=False)


def test_a_suspect_starts_beside_work_that_does_not_end() -> None:
    """After the time of one turn. Then everything else goes on."""
    isolation = waiting()
    assert not isolation.may_start(NOON + TURN - MOMENT, idle=False)
    assert isolation.may_start(NOON + TURN, idle=False)
    assert not isolation.blocks_others(NOON + TURN)
    assert not isolation.may_start(NOON + TURN, idle=False)


def test_suspects_run_for_half_a_turn_and_then_others_for_one() -> None:
    """All other work has a turn, however many suspects are left."""
    isolation = waiting()
    assert isolation.may_start(NOON, idle=True)
    assert isolation.may_start(NOON + TURN / 2 - MOMENT, idle=True)
    assert isolation.blocks_others(NOON + TURN - MOMENT)

    ended = NOON + TURN * 0.75
    assert not isolation.may_start(ended, idle=True)
    assert not isolation.blocks_others(ended)

    isolation.check(ended + TURN - MOMENT, due=True)
    assert not isolation.active
    isolation.check(ended + TURN, due=True)
    assert isolation.blocks_others(ended + TURN)
    assert isolation.may_start(ended + TURN, idle=True)


def test_a_suspect_that_does_not_end_blocks_others_for_one_turn_only() -> None:
    """It runs on, and no other suspect starts beside it."""
    isolation = waiting()
    assert isolation.may_start(NOON, idle=True)
    assert not isolation.may_start(NOON + TURN, idle=False)
    assert not isolation.blocks_others(NOON + TURN)
    isolation.check(NOON + TURN, due=True)
    assert not isolation.active


def test_the_wait_before_a_suspect_does_not_shorten_its_turn() -> None:
    """Other work ran for nearly a turn; the suspect is alone for a whole turn."""
    isolation = waiting()
    began = NOON + TURN - MOMENT
    assert isolation.may_start(began, idle=True)
    assert isolation.blocks_others(began + TURN - MOMENT)


def test_a_suspect_of_another_worker_blocks_nothing() -> None:
    """All other work has a turn, and then the suspects have one."""
    isolation = waiting()
    assert isolation.may_start(NOON, idle=True)
    isolation.found_none(NOON)
    assert not isolation.blocks_others(NOON)
    isolation.check(NOON + MOMENT, due=True)
    assert not isolation.active
    isolation.check(NOON + TURN, due=True)
    assert isolation.may_start(NOON + TURN, idle=True)
