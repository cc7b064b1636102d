"""Actions on many rows that were begun on a page: they go on by themselves, and pages show how far they are."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from receiver.core.clock import Clock
from receiver.core.log_lines import event_log
from receiver.errors import StoreError, StoreRefused

log = event_log(__name__)

MAX_KEPT = 100
"""Actions that have ended and that the list still shows. Older ones are in the log."""
STOP_SECONDS = 10.0
"""How long the present chunk of an action may take when the console stops. A locked store waits half of that."""

_STOPPED = "the console was stopped; ask for it again to go on with the rest"


@dataclass(slots=True)
class ActionRun:
    """One action: what was asked for, by whom, and how far it has come."""

    id: int
    verb: str
    about: str
    """What it is done to, in words."""
    by: str
    """The address from which it was asked for."""
    planned: int
    started_at: datetime
    seen: int = 0
    changed: int = 0
    ended_at: datetime | None = None
    error: str | None = None
    must_stop: bool = False
    """Whether it shall end after the chunk that it is changing now."""

    @property
    def share(self) -> int:
        """How much of it is done, in percent."""
        return 100 if self.ended_at or not self.planned else min(99, self.seen * 100 // self.planned)


class ActionRuns:
    """The actions of one console since it was started."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._runs: OrderedDict[int, ActionRun] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        """One after the other: the second of two that are alike finds nothing to do, and says so."""

    def newest_first(self) -> list[ActionRun]:
        """Return the actions that are kept."""
        return list(reversed(self._runs.values()))

    def find(self, number: int) -> ActionRun | None:
        """Return an action by its number."""
        return self._runs.get(number)

    def done(self, verb: str, about: str, by: str, *, changed: int) -> ActionRun:
        """Record an action that was carried out at once."""
        run = self._new(verb, about, by, changed)
        run.seen = run.changed = changed
        self._end(run)
        return run

    def start(
        self,
        verb: str,
        about: str,
        by: str,
        *,
        planned: int,
        carry_out: Callable[["ActionRun"], Awaitable[None]],
    ) -> ActionRun:
        """Begin an action. `carry_out` changes chunk after chunk, and counts in the run that it is given."""
        run = self._new(verb, about, by, planned)
        task = asyncio.create_task(self._carry_out(run, carry_out))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    async def idle(self) -> None:
        """Return when no action runs."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def aclose(self) -> None:
        """End what runs after its present chunk. The same action goes on with the rest, asked for again."""
        for run in self._runs.values():
            run.must_stop = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        await self.idle()

    async def _carry_out(self, run: ActionRun, carry_out: Callable[["ActionRun"], Awaitable[None]]) -> None:
        try:
            async with self._turn:
                await carry_out(run)
            if run.must_stop and run.seen < run.planned:
                run.error = _STOPPED
        except (StoreError, StoreRefused) as exc:
            run.error = str(exc)
        except asyncio.CancelledError:
            run.error = _STOPPED
            raise
        except Exception as exc:
            run.error = f"the console has a fault ({type(exc).__name__}); its log tells more"
            log.exception("console_action_failed", extra={"action": run.verb, "about": run.about})
        finally:
            self._end(run)

    def _new(self, verb: str, about: str, by: str, planned: int) -> ActionRun:
        run = ActionRun(next(self._numbers), verb, about, by, planned, self._clock.now())
        self._runs[run.id] = run
        ended = [one.id for one in self._runs.values() if one.ended_at is not None]
        for number in ended[: max(0, len(self._runs) - MAX_KEPT)]:
            del self._runs[number]
        return run

    def _end(self, run: ActionRun) -> None:
        run.ended_at = self._clock.now()
        log.info(
            "console_action",
            extra={
                "action": run.verb,
                "about": run.about,
                "client": run.by,
                "changed": run.changed,
                "error": run.error,
            },
        )
