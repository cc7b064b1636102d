"""Handlers that are called as before, with a note of each call."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from receiver.core.types import HandlerName
from receiver.routing import Handler, Router
from receiver.routing.policies import RunsIn


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a handler that has ended: with an event, or with a list of them, and what it raised if it did."""

    handler: HandlerName
    event: Any
    error: BaseException | None = None


class Recorded:
    """A router whose handlers are those of another, and in `calls` what they were called with, in order."""

    def __init__(self, router: Router, *, run: bool) -> None:
        self.calls: list[Call] = []
        self.router = router.changed(self._noted_and_run if run else self._noted)

    def events(self, handler: str | None = None) -> list[Any]:
        """Return what handlers were called with; `handler` is a name, as short as the function's own."""
        return [one.event for one in self.calls if handler in (None, one.handler, one.handler.rpartition(".")[2])]

    def _noted(self, handler: Handler) -> Handler:
        async def only_note(event: Any, *rest: Any, **more: Any) -> None:
            self.calls.append(Call(handler.name, event))

        return replace(handler, function=only_note, runs_in=RunsIn.LOOP)

    def _noted_and_run(self, handler: Handler) -> Handler:
        function = handler.function

        @wraps(function)
        async def run_async(event: Any, *rest: Any, **more: Any) -> Any:
            with self._noting(handler.name, event):
                return await function(event, *rest, **more)

        @wraps(function)
        def run(event: Any, *rest: Any, **more: Any) -> Any:
            with self._noting(handler.name, event):
                return function(event, *rest, **more)

        if handler.runs_in is RunsIn.LOOP:
            return replace(handler, function=run_async)
        return replace(handler, function=run, runs_in=RunsIn.THREAD)

    @contextmanager
    def _noting(self, handler: HandlerName, event: Any) -> Iterator[None]:
        try:
            yield
        except BaseException as exc:
            self.calls.append(Call(handler, event, exc))
            raise
        self.calls.append(Call(handler, event))


def record_calls(router: Router, *, run: bool = True) -> Recorded:
    """Return a router like this one that notes each call of its handlers; give `recorded.router` to the test.

    With `run=False` the functions themselves are not called. Functions with `run_in="process"` run in a thread.
    """
    return Recorded(router, run=run)
