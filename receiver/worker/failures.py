"""The reason why an attempt failed, as texts that every store takes, and what it means for the work item."""

import inspect
from dataclasses import dataclass
from datetime import timedelta

from receiver.core.rules import Died, Failed, Refused, Result
from receiver.core.text import storable
from receiver.core.tracebacks import error_line, frames, traceback_of, user_frames
from receiver.errors import GiveUp, NoApiKey, RateLimited, Retry, StoreError
from receiver.routing import Handler

MAX_TRACEBACK_LENGTH = 8_000


class TimedOut(TimeoutError):
    """A handler was ended at its time-out."""

    def __str__(self) -> str:
        return str(self.args[0])


class ProcessDied(Exception):
    """The process that ran a function ended before the function did."""


class NoProcess(Exception):
    """No process came to the point of running a function."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as texts, in a form that can be sent from one process to another.

    `error` is its class and message in one line. `classes` are the names of its class and of the base classes, the
    nearest first. `frames` are lines that show where the user's code raised it. `after` is how long a `Retry` or a
    `RateLimited` asks to wait.
    """

    error: str
    traceback: str
    classes: tuple[str, ...]
    frames: tuple[str, ...] = ()
    after: timedelta | None = None

    @property
    def deliberate(self) -> bool:
        """Tell whether the handler decided about its work item, with `Retry` or `GiveUp`.

        A NoApiKey is a GiveUp too, and nobody chose it: the handler did not know that there is no key.
        """
        return (_RETRY in self.classes or _GIVE_UP in self.classes) and _NO_API_KEY not in self.classes

    @classmethod
    def of(cls, error: BaseException) -> "Raised":
        """Describe an exception. This works even if the exception's own `__str__` raises."""
        if isinstance(error, RaisedElsewhere):
            return error.raised
        name = "retry_after" if isinstance(error, RateLimited) else "after"
        after = getattr(error, name, None)  # a subclass may not have set it, or may have set something else
        return cls(
            describe(error),
            _cut_traceback(error),
            _names(type(error).__mro__),
            # Where our own code raised these does not matter, but where a handler was at its time-out does.
            tuple(user_frames(error) if isinstance(error, TimedOut | ProcessDied | NoProcess) else frames(error)),
            after if isinstance(after, timedelta) else None,
        )


class RaisedElsewhere(Exception):
    """Stands for an exception of which only a description is kept: of another process, or of too large an event."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.error)
        self.raised = raised
        self.add_note(raised.traceback)


def require_done(result: object) -> object:
    """Return what a plain function returned; raise TypeError if that is work which nobody would do."""
    if result is None:
        return None
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        raise TypeError(
            f"the handler returned a {type(result).__name__} that nobody awaits: "
            "a decorator around an async function has to be async itself"
        )
    return result


def result_of(raised: Raised, handler: Handler) -> Result:
    """Return what an exception means under the handler's policy.

    `Retry` and `GiveUp` do what they say. Otherwise the policy decides by the nearest class that it names. A policy
    with `retry_on` gives up on all other classes. The policy does not apply to a process that dies or does not
    start, nor to a store that cannot be reached. After a `RateLimited` the retry waits at least as long as the
    service asks.
    """
    if _RETRY in raised.classes:
        return Failed(raised.after)
    if _GIVE_UP in raised.classes:
        return Refused()
    if _DIED in raised.classes:
        return Died()
    if _NO_PROCESS in raised.classes or _STORE_ERROR in raised.classes:
        return Failed()
    retried, given_up = _names(handler.retry_on), _names(handler.give_up_on)
    again = Failed(at_least=raised.after if _RATE_LIMITED in raised.classes else None)
    for name in raised.classes:
        if name in retried:
            return again
        if name in given_up:
            return Refused()
    return Refused() if retried else again


def describe(error: BaseException) -> str:
    """Return class and message of an error in one line that every store takes; of a time-out the message alone."""
    return storable(str(error) if isinstance(error, TimedOut) else error_line(error))


def _cut_traceback(error: BaseException) -> str:
    return storable(traceback_of(error)[-MAX_TRACEBACK_LENGTH:])  # the end says what happened


def _names(classes: tuple[type[BaseException], ...]) -> tuple[str, ...]:
    return tuple([f"{one.__module__}.{one.__qualname__}" for one in classes])


_RETRY, _GIVE_UP, _DIED, _NO_PROCESS, _STORE_ERROR, _RATE_LIMITED, _NO_API_KEY = _names(
    (Retry, GiveUp, ProcessDied, NoProcess, StoreError, RateLimited, NoApiKey)
)
