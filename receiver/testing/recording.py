"""Records the calls of handlers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from receiver.core.types import HandlerName
from receiver.routing import Handler, Router
from receiver.routing.policies import RunsIn
from receiver.testing.delivering import require_router


@dataclass(frozen=True, slots=True)
class Call:
    """One ended call of a handler: the event, or the list of events, and the error if it raised."""

    handler: HandlerName
    event: Any
    error: BaseException | None = None


class Recorded:
    """A copy of a router; `calls` are the calls of its handlers, in order."""

    def __init__(self, router: Router, *, run: bool) -> None:
        self.calls: list[Call] = []
        self.router = router.changed(self._run_and_record if run else self._record_only)

    def events(self, handler: str | None = None) -> list[Any]:
        """Return the events of all calls, or of one handler: its complete name, or the function's name alone."""
        return [one.event for one in self.calls if handler in (None, one.handler, one.handler.rpartition(".")[2])]

    def _record_only(self, handler: Handler) -> Handler:
        async def record(event: Any, *rest: Any, **more: Any) -> None:
            self.calls.append(Call(handler.name, event))

        return replace(handler, function=record, runs_in=RunsIn.LOOP)

    def _run_and_record(self, handler: Handler) -> Handler:
        function = handler.function

        @wraps(function)
        async def run_async(event: Any, *rest: Any, **more: Any) -> Any:
            with self._recording(handler.name, event):
                return await function(event, *rest, **more)

        @wraps(function)
        def run(event: Any, *rest: Any, **more: Any) -> Any:
            with self._recording(handler.name, event):
                return function(event, *rest, **more)

        if handler.runs_in is RunsIn.LOOP:
            return replace(handler, function=run_async)
        return replace(handler, function=run, runs_in=RunsIn.THREAD)

    @contextmanager
    def _recording(self, handler: HandlerName, event: Any) -> Iterator[None]:
        try:
            yield
        except BaseException as exc:
            self.calls.append(Call(handler, event, exc))
            raise
        self.calls.append(Call(handler, event))


def record_calls(router: Router, *, run: bool = True) -> Recorded:
    """Return a copy of this router that records each call of its handlers; use `recorded.router` in the test.

    With `run=False` the functions are not called. Functions with `run_in="process"` run in a thread.
    """
    require_router(router)
    return Recorded(router, run=run)
