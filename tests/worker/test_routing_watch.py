"""A `where` or `lane` that does not return ends its worker, and nothing else does."""

import logging
import signal
import subprocess
import sys
import textwrap

import pytest

from receiver.core.types import HandlerName
from receiver.worker import trial
from receiver.worker.trial import MAX_CHECKS, RoutingWatch
from tests.doubles import delivery, event_of

H = HandlerName("handlers.choosy")


class Watched:
    """A watch that a test lets check, and how often it has ended the process."""

    def __init__(self) -> None:
        self.ends = 0
        self.watch = RoutingWatch(self._end)

    def _end(self) -> None:
        self.ends += 1

    def check(self, times: int) -> None:
        """Look so many times."""
        for _ in range(times):
            self.watch.check()


def test_the_same_question_may_not_be_seen_too_often(caplog: pytest.LogCaptureFixture) -> None:
    """Then the log names the handler and the delivery, and the process ends."""
    watched = Watched()
    with watched.watch.asking(H, delivery("k")):
        watched.check(MAX_CHECKS - 1)
        assert watched.ends == 0
        watched.check(1)

    assert watched.ends == 1
    [record] = caplog.records
    assert (event_of(record), record.levelno) == ("routing_blocked", logging.ERROR)
    assert (record.__dict__["handler"], record.__dict__["id"]) == (H, "k")


def test_many_questions_end_nothing() -> None:
    """Each check sees another one, even of the same handler about the same delivery."""
    watched = Watched()
    for _ in range(3 * MAX_CHECKS):
        with watched.watch.asking(H, delivery("k")):
            watched.check(1)

    assert watched.ends == 0


def test_a_worker_that_routes_nothing_is_not_ended() -> None:
    """A question that has been answered does not count any more."""
    watched = Watched()
    with watched.watch.asking(H, delivery("k")):
        watched.check(MAX_CHECKS - 1)
    watched.check(3 * MAX_CHECKS)
    with watched.watch.asking(H, delivery("k")):
        watched.check(MAX_CHECKS - 1)

    assert watched.ends == 0


def test_a_question_that_raises_is_answered() -> None:
    """The error is the caller's."""
    watched = Watched()
    with pytest.raises(ValueError, match="no"), watched.watch.asking(H, delivery("k")):
        raise ValueError("no")
    watched.check(MAX_CHECKS)

    assert watched.ends == 0


def run(question: str) -> "subprocess.CompletedProcess[str]":
    """Ask a question in a process with a watch that has started, with small limits."""
    program = f"""
        import os, re, time
        from receiver.worker import trial
        from tests.doubles import delivery

        def stubborn():
            {question}

        trial.MAX_CHECKS, trial.MAX_CPU_SECONDS = 2, {limit(question)}
        watch = trial.RoutingWatch(lambda: os._exit(7))
        watch.start()
        with watch.asking("h", delivery("k")):
            stubborn()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def limit(question: str) -> float:
    """Return a limit of processor time: a small one only for what lets no other thread run."""
    return 0.2 if "re.match" in question else 1_000


@pytest.mark.parametrize("question", ["time.sleep(3600)", "while True: pass"])
def test_what_waits_or_loops_for_ever_is_ended(question: str) -> None:
    """The thread sees the same question again and again."""
    ended = run(question)

    assert ended.returncode == 7
    assert "routing_blocked" in ended.stderr


def test_what_lets_no_other_thread_run_is_ended_by_its_processor_time() -> None:
    """The traceback names the function, and a supervisor sees the signal."""
    ended = run("re.match('(a+)+b', 'a' * 60)")

    assert ended.returncode == -signal.SIGVTALRM
    assert "in stubborn" in ended.stderr


def test_the_limits_are_generous() -> None:
    """Routing a delivery takes less than a millisecond, and a trial gives it ten seconds."""
    assert trial.MAX_CHECKS >= 60
    assert trial.MAX_CPU_SECONDS >= 60
