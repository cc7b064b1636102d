"""Which workers count as dead for the one that follows them."""

from collections.abc import Sequence

from receiver.core.types import WorkerId
from receiver.worker.upkeep.supervisor import NextWorker, ProcessEnd


def command(worker: WorkerId, dead: Sequence[WorkerId], store_refusal_told: bool) -> Sequence[str]:
    """Return the dead workers alone."""
    return dead


def test_a_worker_that_gave_its_work_back_is_not_dead() -> None:
    """So it is after new code: the next worker need not be careful. Those that died before it still count."""
    names = map(WorkerId, "abcd")
    next_worker = NextWorker(command, lambda: next(names), store_refused=3)

    assert next_worker(None) == []
    assert next_worker(ProcessEnd(0, ran_long=False)) == []
    assert next_worker(ProcessEnd(None, ran_long=False)) == ["b"]
    assert next_worker(ProcessEnd(0, ran_long=False)) == ["b"]
