"""One process moves the write-ahead log in the background: one that appends, if there is one."""

import sys
from pathlib import Path

import pytest

from receiver.stores.sqlite.checkpoints import CheckpointTurn

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems may not have these locks")


def test_it_is_the_turn_of_the_first_that_appends(path: Path) -> None:
    """The next one takes it over when the first has ended."""
    first, second, worker = CheckpointTurn(path), CheckpointTurn(path), CheckpointTurn(path)
    with second.appending():
        with first.appending():
            assert first.is_mine()
            assert not second.is_mine()
            assert not worker.is_mine()
            assert first.is_mine()
        assert second.is_mine()
        assert not worker.is_mine()
        assert not first.is_mine()


def test_without_one_that_appends_everybody_moves_the_log(path: Path) -> None:
    """For example two workers while the endpoint is down: the log must not grow without end."""
    one, two = CheckpointTurn(path), CheckpointTurn(path)

    assert one.is_mine()
    assert two.is_mine()


def test_several_logs_of_one_process_share_the_turn(path: Path) -> None:
    """It keeps the turn until the last one is closed."""
    turn, other = CheckpointTurn(path), CheckpointTurn(path)
    with turn.appending():
        with turn.appending():
            assert turn.is_mine()
        assert not other.is_mine()


def test_where_locks_do_not_work_the_log_is_moved(tmp_path: Path) -> None:
    """Twice is better than never."""
    turn = CheckpointTurn(tmp_path / "no folder" / "receiver.db")

    assert turn.is_mine()
    with turn.appending():
        assert turn.is_mine()
