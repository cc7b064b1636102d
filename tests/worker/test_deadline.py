"""The time-out of one attempt, which starts with the attempt and again with each heartbeat."""

from datetime import timedelta

import pytest

from receiver.core.clock import VirtualClock
from receiver.worker.attempts import Deadline
from tests.doubles import NOON

SECOND = timedelta(seconds=1)


class Watched:
    """A deadline of ten seconds, and when it has called back."""

    def __init__(self, *, started: bool = True) -> None:
        self.clock = VirtualClock(NOON)
        self.calls: list[timedelta] = []
        self.deadline = Deadline(self.clock, SECOND * 10)
        self.deadline.watch(lambda: self.calls.append(self.clock.now() - NOON), started=started)

    def at(self, second: float) -> None:
        """Move the clock to this second."""
        self.clock.advance(NOON + SECOND * second - self.clock.now())


def test_it_calls_back_once_when_time_is_up() -> None:
    """From then on it is late."""
    watched = Watched()
    watched.at(9.999)
    assert (watched.calls, watched.deadline.late) == ([], False)

    watched.at(100)

    assert (watched.calls, watched.deadline.late) == ([SECOND * 10], True)


def test_it_can_be_cancelled() -> None:
    """Before it is watched, too."""
    watched = Watched()
    watched.deadline.cancel()
    watched.at(100)
    Deadline(watched.clock, SECOND).cancel()

    assert watched.calls == []


@pytest.mark.parametrize(
    ("beats", "late"),
    [([5], 15), ([0], 10), ([1, 2, 3], 13), ([9, 18, 27], 37), ([10], 10), ([5, 15, 24], 15)],
    ids=str,
)
def test_a_heartbeat_starts_the_time_anew(beats: list[int], late: int) -> None:
    """The last heartbeat counts, unless it comes too late."""
    watched = Watched()
    for second in beats:
        watched.at(second)
        watched.deadline.beat()
    watched.at(1_000)

    assert watched.calls == [SECOND * late]


def test_no_time_counts_before_the_start() -> None:
    """A function that waits for a thread is not late."""
    watched = Watched(started=False)
    watched.at(25)
    watched.deadline.start()
    watched.at(34.999)
    assert watched.calls == []

    watched.at(40)

    assert watched.calls == [SECOND * 35]


@pytest.mark.parametrize("jump", [timedelta(hours=2), -timedelta(hours=2)])
def test_a_clock_that_somebody_sets_does_not_change_the_timeout(jump: timedelta) -> None:
    """It goes by the clock that nobody sets."""
    watched = Watched()
    watched.at(5)
    watched.deadline.beat()
    watched.clock.jump(jump)
    watched.clock.advance(SECOND * 9.999)
    assert watched.calls == []

    watched.clock.advance(SECOND)

    assert watched.calls == [SECOND * 15 + jump]
