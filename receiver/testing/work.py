"""The state of work items after a test, and assertions about it."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from receiver.core.types import DeliveryKey, HandlerName, WorkState


@dataclass(frozen=True, slots=True)
class Work:
    """One work item: a delivery for one handler, its state, and its last error.

    `error` is the error of the last attempt in one line, and `traceback` the complete one. Both are None after a
    success.
    """

    handler: HandlerName
    type: str
    id: DeliveryKey
    """The id of the delivery."""
    state: WorkState
    attempts: int
    error: str | None
    traceback: str | None

    def __str__(self) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        error = f": {self.error}" if self.error else ""
        return f"{self.handler} <- {self.type} {self.id}: {self.state} after {times}{error}"


def assert_handled(work: Iterable[Work], handler: str = "*", *, times: int | None = None) -> None:
    """Assert that there is work for this handler, and that all of it is done; `times` is the number of work items.

    With `times=0` there must be no work for it. `work` comes from `deliver` or `work_items`. `handler` is the
    complete name, the function's name alone, or a glob. A failure shows all work items, and the tracebacks of the
    handlers that failed.
    """
    __tracebackhide__ = True
    _assert_all(_listed(work), handler, WorkState.DONE, "handled", times)


def assert_dead(work: Iterable[Work], handler: str = "*", *, error: str = "", times: int | None = None) -> None:
    """Assert that there is work for this handler, that all of it is dead, and that `error` is in each last error.

    The arguments are those of `assert_handled`.
    """
    __tracebackhide__ = True
    everything = _listed(work)
    _assert_all(everything, handler, WorkState.DEAD, "dead", times)
    if others := [one for one in _of(everything, handler) if error not in (one.error or "")]:
        raise AssertionError(_message(f"work of {handler!r} died of another error than {error!r}", others))


def _assert_all(work: Sequence[Work], handler: str, state: WorkState, word: str, times: int | None) -> None:
    __tracebackhide__ = True
    found = _of(work, handler)
    if not found and times != 0:
        raise AssertionError(_message(f"there is no work for {handler!r}", work))
    if others := [one for one in found if one.state is not state]:
        problem = f"{len(others)} of {len(found)} for {handler!r} are not {word}"
        raise AssertionError(_message(problem, work, others))
    if times is not None and len(found) != times:
        raise AssertionError(_message(f"{len(found)} for {handler!r} are {word}, not {times}", work))


def _listed(work: Iterable[Work]) -> list[Work]:
    if inspect.isawaitable(work) or callable(work):
        if inspect.iscoroutine(work):
            work.close()  # otherwise Python warns of it beside the error
        raise TypeError(
            "the work is not there yet: write assert_handled(await deliver_async(...)), "
            "or assert_handled(await receiver_work_items())"
        )
    return list(work)


def _of(work: Iterable[Work], handler: str) -> list[Work]:
    return [one for one in work if fnmatchcase(one.handler, handler) or one.handler.rpartition(".")[2] == handler]


def _message(problem: str, work: Sequence[Work], explained: Sequence[Work] = ()) -> str:
    listed = "".join(f"\n  {one}" for one in work) or "\n  no work at all: does a handler want such an event?"
    tracebacks = "".join(f"\n\n{one.handler}:\n{one.traceback}" for one in explained or work if one.traceback)
    return f"{problem}{listed}{tracebacks}"
