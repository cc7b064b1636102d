"""What became of work, in a form to assert on, and the assertions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from receiver.core.types import DeliveryKey, HandlerName, WorkState


@dataclass(frozen=True, slots=True)
class Work:
    """One delivery bound for one handler, and how far it has come.

    `error` is that of the last attempt in one line, `traceback` all of it; both None when it went well.
    """

    handler: HandlerName
    type: str
    key: DeliveryKey
    state: WorkState
    attempts: int
    error: str | None
    traceback: str | None

    def __str__(self) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        error = f": {self.error}" if self.error else ""
        return f"{self.handler} <- {self.type} {self.key}: {self.state} after {times}{error}"


def assert_handled(work: Iterable[Work], handler: str = "*", *, times: int | None = None) -> None:
    """Assert that there is work for this handler, so many `times` if that is given, and that all of it is done.

    `work` is what `deliver` or `work_items` returned. `handler` is a name, as short as the function's own, or a
    glob. The failure shows all work, and the tracebacks of the handlers that failed.
    """
    __tracebackhide__ = True
    _assert_all(list(work), handler, WorkState.DONE, "handled", times)


def assert_dead(work: Iterable[Work], handler: str = "*", *, error: str = "", times: int | None = None) -> None:
    """Assert that there is work for this handler, that all of it is dead, and that `error` is in its last error.

    Otherwise it is like `assert_handled`.
    """
    __tracebackhide__ = True
    everything = list(work)
    _assert_all(everything, handler, WorkState.DEAD, "dead", times)
    if others := [one for one in _of(everything, handler) if error not in (one.error or "")]:
        raise AssertionError(_told(f"work of {handler!r} died of another error than {error!r}", others))


def _assert_all(work: Sequence[Work], handler: str, state: WorkState, word: str, times: int | None) -> None:
    __tracebackhide__ = True
    found = _of(work, handler)
    if not found:
        raise AssertionError(_told(f"there is no work for {handler!r}", work))
    if others := [one for one in found if one.state is not state]:
        raise AssertionError(_told(f"{len(others)} of {len(found)} for {handler!r} are not {word}", work, others))
    if times is not None and len(found) != times:
        raise AssertionError(_told(f"{len(found)} for {handler!r} are {word}, not {times}", work))


def _of(work: Iterable[Work], handler: str) -> list[Work]:
    return [one for one in work if fnmatchcase(one.handler, handler) or one.handler.rpartition(".")[2] == handler]


def _told(problem: str, work: Sequence[Work], explained: Sequence[Work] = ()) -> str:
    listed = "".join(f"\n  {one}" for one in work) or "\n  no work at all: does a handler want such an event?"
    tracebacks = "".join(f"\n\n{one.handler}:\n{one.traceback}" for one in explained or work if one.traceback)
    return f"{problem}{listed}{tracebacks}"
