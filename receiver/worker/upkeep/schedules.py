"""Makes the scheduled runs of handlers when they are due, one for all workers that share the store."""

import asyncio
import json
from collections.abc import Iterable
from datetime import datetime, timedelta

from receiver.core.claims import DueRun
from receiver.core.clock import Clock, iso
from receiver.core.deliveries import Delivery
from receiver.core.ports.queue import ScheduleQueue
from receiver.core.schedules import RUN_TYPE, PlannedRun, RunOutcome, run_key
from receiver.core.types import HandlerName, Origin
from receiver.errors import StoreError, StoreRefused
from receiver.routing import Handler
from receiver.routing.schedules import RunTimes
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

_PAUSE = timedelta(seconds=5)
"""After an error of the store."""


class ScheduledRuns:
    """Makes runs in `make_due`, unless another worker has made them; `until_due` waits in between.

    Of runs that were missed, only the last one is made.
    """

    def __init__(
        self, queue: ScheduleQueue, handlers: Iterable[Handler], clock: Clock, *, longest_wait: timedelta
    ) -> None:
        """The store is read again after `longest_wait`: the clock may have been set back, or a backup restored."""
        self._longest_wait = longest_wait
        self._queue = queue
        self._clock = clock
        self._times: dict[HandlerName, RunTimes] = {
            one.name: one.times for one in handlers if one.times is not None
        }
        self._noted: dict[HandlerName, datetime] = {}
        """The next run of each handler, as the store has it."""
        self._followed_at: datetime | None = None
        self._not_before = clock.steady()

    async def make_due(self) -> None:
        """Make all runs that are due now. If that fails, it is tried again soon, and stops no other work."""
        if not self._times or self._clock.steady() < self._not_before:
            return
        try:
            await self._make_due()
        except StoreRefused:
            raise  # the worker ends
        except StoreError as exc:
            log.warning("scheduled_runs_delayed", extra={"reason": str(exc)})
        except Exception:
            log.exception("scheduled_runs_delayed")  # a bug of ours
        else:
            return
        self._not_before = self._clock.steady() + _PAUSE

    async def _make_due(self) -> None:
        now, steady = self._clock.now(), self._clock.steady()
        made = await self._make_noted(now)  # before the store learns of another schedule of the handler
        if made or self._followed_at is None or steady - self._followed_at >= self._longest_wait:
            await self._follow(now)
            self._followed_at = steady
        if await self._make_noted(now):
            await self._follow(now)

    async def _make_noted(self, now: datetime) -> bool:
        """Make the runs that are due, as the store has them. Return whether there were any."""
        due = [name for name, moment in self._noted.items() if moment <= now]
        for name in due:
            await self._make(name, now)
        return bool(due)

    async def until_due(self) -> None:
        """Return when a run is due, or `make_due` has to read the store again; without schedules, never."""
        if not self._times:
            await asyncio.Event().wait()
        if not self._noted:  # the store has not answered yet
            await self._clock.sleep(_PAUSE)
            return
        wait = min(min(self._noted.values()) - self._clock.now(), self._longest_wait)
        await self._clock.sleep(max(wait, self._not_before - self._clock.steady()))

    async def _follow(self, now: datetime) -> None:
        planned = [PlannedRun(name, times.text, times.next_after(now)) for name, times in self._times.items()]
        noted = await self._queue.follow_schedules(planned, now=now)
        self._noted = dict(zip(self._times, noted, strict=True))

    async def _make(self, name: HandlerName, now: datetime) -> None:
        times, noted = self._times[name], self._noted[name]
        due_at = times.last_until(now, since=noted)
        run = DueRun(name, noted, times.next_after(now), run_delivery(name, due_at, now))
        outcome = await self._queue.make_run(run, now=now)
        if outcome is RunOutcome.UNFINISHED:
            reason = "the run before has not ended"
            log.warning("scheduled_run_left_out", extra={"handler": name, "due_at": iso(due_at), "reason": reason})
        elif outcome is RunOutcome.MADE and due_at > noted:
            log.warning("scheduled_runs_missed", extra={"handler": name, "since": iso(noted), "made": iso(due_at)})


def run_delivery(handler: HandlerName, due_at: datetime, now: datetime) -> Delivery:
    """Return what is stored for a scheduled run."""
    body = {"success": True, "type": RUN_TYPE, "name": handler, "dueAt": iso(due_at)}
    return Delivery(
        key=run_key(handler, due_at),
        type=RUN_TYPE,
        job_id=None,
        webhook_id=None,
        success=True,
        received_at=now,
        headers=(),
        body=json.dumps(body).encode(),
        origin=Origin.SCHEDULE,
    )
