"""The turns of suspects and of everything else; every moment is given."""

from datetime import timedelta

from receiver.worker.isolation import Isolation
from tests.doubles import NOON

TURN = timedelta(minutes=1)
MOMENT = timedelta(seconds=1)


def waiting() -> Isolation:
    """Return the turns of a worker that has just seen a suspect."""
    isolation = Isolation(TURN)
    isolation.check(NOON, due=True)
    return isolation


def test_without_suspects_nothing_is_held_up() -> None:
    """No look finds one."""
    isolation = Isolation(TURN)
    isolation.check(NOON, due=False)
    assert not isolation.active
    assert not isolation.blocks_others(NOON)
    assert not isolation.may_start(NOON, idle=True)


def test_a_suspect_begins_when_nothing_else_runs() -> None:
    """Until then nothing else begins either, nor while it runs."""
    isolation = waiting()
    assert isolation.blocks_others(NOON)
    assert not isolation.may_start(NOON + MOMENT, idle=False)

    assert isolation.may_start(NOON + 2 * MOMENT, idle=True)

    assert isolation.blocks_others(NOON + 2 * MOMENT)
    assert not isolation.may_start(NOON + 3 * MOMENT, idle=False)


def test_a_suspect_begins_beside_what_does_not_end() -> None:
    """After a turn's time; everything else goes on then."""
    isolation = waiting()
    assert not isolation.may_start(NOON + TURN - MOMENT, idle=False)
    assert isolation.may_start(NOON + TURN, idle=False)
    assert not isolation.blocks_others(NOON + TURN)
    assert not isolation.may_start(NOON + TURN, idle=False)


def test_suspects_follow_each_other_for_half_a_turn_and_then_rest_for_one() -> None:
    """So that each has half a turn for itself, and all else comes to its turn however many suspects are left."""
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


def test_a_suspect_that_does_not_end_holds_nothing_up_for_longer_than_a_turn() -> None:
    """It runs on, and no other suspect begins beside it."""
    isolation = waiting()
    assert isolation.may_start(NOON, idle=True)
    assert not isolation.may_start(NOON + TURN, idle=False)
    assert not isolation.blocks_others(NOON + TURN)
    isolation.check(NOON + TURN, due=True)
    assert not isolation.active


def test_the_time_for_which_it_waited_is_not_taken_from_its_turn() -> None:
    """What ran before it took almost a turn; it is alone for a whole one."""
    isolation = waiting()
    began = NOON + TURN - MOMENT
    assert isolation.may_start(began, idle=True)
    assert isolation.blocks_others(began + TURN - MOMENT)


def test_a_suspect_that_another_worker_has_holds_nothing_up() -> None:
    """All else has a turn then; the next one for suspects comes after it."""
    isolation = waiting()
    assert isolation.may_start(NOON, idle=True)
    isolation.found_none(NOON)
    assert not isolation.blocks_others(NOON)
    isolation.check(NOON + MOMENT, due=True)
    assert not isolation.active
    isolation.check(NOON + TURN, due=True)
    assert isolation.may_start(NOON + TURN, idle=True)


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    """Nobody waits for the moment to come again."""
    isolation = waiting()
    assert not isolation.blocks_others(NOON - TURN)
    assert isolation.may_start(NOON - TURN, idle=False)

    isolation.check(NOON - 2 * TURN, due=True)
    assert isolation.active
