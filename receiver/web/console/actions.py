"""Actions that were begun on a page: they run in the background, counted in the store. Some can be undone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

from receiver.core.bulk import BURY, RETRY, TAKE_BACK
from receiver.core.choosing import STOPPED, end_early, reason_of, recorded
from receiver.core.clock import Clock
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls
from receiver.core.recorded_actions import NewAction, RecordedAction
from receiver.core.text import counted
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.views import waiting_items
from receiver.core.work import HandlerReport, WorkFilter
from receiver.errors import ReceiverError, StoreError, StoreRefused
from receiver.runtime.log_lines import event_log
from receiver.web.console.filters import segment
from receiver.web.console.store import StoreAccess

log = event_log(__name__)

STOP_SECONDS = 10.0
"""How long the present chunk of an action may take when the console stops. A locked store waits half of that."""
MAX_RUNNING = 20
"""Actions of one console that may be under way or wait for their turn."""


_NEWEST = 100
"""Actions among which one is looked for that the same form began."""


class TooManyActions(ValueError):
    """Too many actions are under way; the message is for the page."""


@dataclass(slots=True)
class ActionRun:
    """One action of this process that is under way."""

    number: int
    must_stop: bool = False
    """Whether it must end after its present chunk."""


CarryOut = Callable[[Reports, Controls, ActionRun], Awaitable[None]]
"""Changes chunk after chunk, counts each for the action, and returns early when the run must stop."""


class ActionRuns:
    """The actions of one console that are under way."""

    def __init__(self, access: StoreAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._runs: dict[int, ActionRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        """One after the other: the second of two that are alike finds nothing to do, and says so."""
        self.forms = asyncio.Lock()
        """Forms that make work ask `begun_by` and begin under it, so that a second one finds the first."""

    def is_running(self, number: int) -> bool:
        """Return whether an action is under way in this process, or waits here for its turn."""
        return number in self._runs

    def stop(self, number: int) -> None:
        """Let an action of this process end after its present chunk."""
        if (run := self._runs.get(number)) is not None:
            run.must_stop = True

    @asynccontextmanager
    async def recorded(self, reports: Reports, controls: Controls, action: NewAction) -> AsyncIterator[int]:
        """Record an action around the block that carries it out at once, and that counts for its number."""
        async with recorded(controls, self._clock, action) as number:
            yield number
        _log(action, (await reports.action(number)).changed, "")

    async def start(self, action: NewAction, carry_out: CarryOut) -> int:
        """Record an action, and begin it; return its number. Raises TooManyActions."""
        if len(self._runs) >= MAX_RUNNING:
            raise TooManyActions(f"{MAX_RUNNING} actions are under way already; wait until one has ended")
        async with self._access.deciding() as (_, controls):
            run = ActionRun(await controls.begin_action(action, now=self._clock.now()))
        self._runs[run.number] = run
        task = asyncio.create_task(self._run(run, action, carry_out))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run.number

    async def idle(self) -> None:
        """Return when no action runs."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def aclose(self) -> None:
        """End what runs after its present chunk. The same action, begun again, does the rest."""
        for run in self._runs.values():
            run.must_stop = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        await self.idle()

    async def _run(self, run: ActionRun, action: NewAction, carry_out: CarryOut) -> None:
        changed, error = 0, STOPPED
        try:
            async with self._turn, self._access.deciding() as (reports, controls):
                changed, error = await self._carried_out(run, reports, controls, carry_out)
        except (StoreError, StoreRefused) as exc:
            error = str(exc)  # nothing can be recorded: it is shown as interrupted, after a while
        finally:
            del self._runs[run.number]
            _log(action, changed, error)

    async def _carried_out(
        self, run: ActionRun, reports: Reports, controls: Controls, carry_out: CarryOut
    ) -> tuple[int, str]:
        """Return how much it has changed, and why it ended early, "" if it did not."""
        error = ""
        try:
            if not run.must_stop:
                await carry_out(reports, controls, run)
        except asyncio.CancelledError:
            await end_early(controls, self._clock, run.number, STOPPED)
            raise
        except Exception as exc:
            error = reason_of(exc)
            if not isinstance(exc, ReceiverError):
                log.exception("console_action_failed", extra={"action": run.number})
        done = await reports.action(run.number)
        if run.must_stop and done.has_rest and not error:
            error = STOPPED
        await controls.end_action(run.number, now=self._clock.now(), error=error or None)
        return done.changed, error


async def begun_by(reports: Reports, action: NewAction) -> int | None:
    """Return the action that the same form began already, as it was sent twice: its choice names its page."""
    if not action.choice:
        return None
    newest = await reports.actions(limit=_NEWEST)
    same = (one.id for one in newest if (one.what.verb, one.what.choice) == (action.verb, action.choice))
    return next(same, None)


def _log(action: NewAction, changed: int, error: str) -> None:
    fields = {"action": action.verb, "about": action.about, "actor": action.actor, "changed": changed}
    log.info("console_action", extra={**fields, "error": error or None})


SWITCHES = {"pause": HandlerSwitch.PAUSED, "resume": HandlerSwitch.ON, "disable": HandlerSwitch.DISABLED}
"""What an action of this name does to a handler's switch."""
_BACK = {to: verb for verb, to in SWITCHES.items()}
_RUNS = ("retry", "run again")
"""Actions that start work. Items without an attempt can be taken back."""
_FINAL = {
    "release": "The request is a delivery now. Bury its work items if they must not run.",
    "backfill": "The events are stored, and handlers run on them. Bury their work items if they must not run.",
    "fetch": "The results are stored. They do no harm: no handler runs on them.",
    "import": "The events are stored. They do no harm: no handler runs on them.",
    "record": "The handlers have run. What they did outside the store cannot be undone here.",
    "prune": "What was deleted can only come back from a backup.",
}


@dataclass(frozen=True, slots=True)
class Undo:
    """How an action is undone, or why it is not."""

    text: str
    """What happens then, or why nothing can be done."""
    plan: str = ""
    """The page that shows the plan; "" if there is none."""
    switch: str = ""
    """What a form has to be sent to, in place of a plan."""
    verb: str = ""
    """What that does to the handler."""
    only_if: str = ""
    """The switch that the handler must still have then: an old page must not undo what others did since."""


def undo_filter(action: RecordedAction) -> WorkFilter | None:
    """Return which work items an undo would change now; None for actions without work items."""
    wanted = WorkFilter(action=action.id)
    if action.what.verb in _RUNS:
        return TAKE_BACK.narrowed(wanted)
    if action.what.verb in (BURY.verb, TAKE_BACK.verb):
        return RETRY.narrowed(WorkFilter(action=action.id, state=WorkState.DEAD))
    return None


def undo_of_work(action: RecordedAction, left: int) -> Undo:
    """Return how an action on work items is undone, of which `left` items are as it left them."""
    items = counted(left, "work item")
    number = urlencode({"action": action.id})
    if action.what.verb in _RUNS:
        if not left:
            return Undo(f"Nothing is left to take back: {TAKE_BACK.left_alone}.")
        text = f"{items} {'has' if left == 1 else 'have'} not run yet and can become dead again."
        return Undo(text, f"/work-items/take-back/plan?{number}")
    if not left:
        return Undo("Nothing is left to undo: the items were dead before, or they were changed since.")
    text = f"{items} can run again. They run at once, with all their attempts, and do not wait for other pages."
    return Undo(text, f"/work-items/retry/plan?{number}&state=dead")


def undo_of_switch(action: RecordedAction, report: HandlerReport | None, later: RecordedAction | None) -> Undo:
    """Return how the switch of a handler is set back; `later` is an action that has switched it since."""
    handler, before = action.what.choice.get("handler", ""), action.what.choice.get("before", "")
    if report is None or before not in list(HandlerSwitch) or not handler:
        return Undo("The handler is not known any more.")
    if report.switch is not SWITCHES[action.what.verb] or before == report.switch:
        return Undo(f"There is nothing to undo: the handler is {report.switch.value} now, and was {before} before.")
    if later is not None:
        return Undo(f"The handler was switched again since, by action #{later.id}. Undo that one, if it was wrong.")
    back, waiting = HandlerSwitch(before), counted(waiting_items(report), "waiting item")
    effect = {
        HandlerSwitch.ON: f"It runs again, with {waiting}.",
        HandlerSwitch.PAUSED: f"It is paused again: {waiting} and new ones wait.",
        HandlerSwitch.DISABLED: f"It is disabled again: {waiting} and new ones are skipped.",
    }[back]
    skipped = report.counts.get(WorkState.SKIPPED, 0)
    if skipped and report.switch is HandlerSwitch.DISABLED:
        effect += f" {counted(skipped, 'item')} that it skipped stay so until they are retried."
    path = f"/handlers/{segment(HandlerName(handler))}/{_BACK[back]}"
    return Undo(effect, switch=path, verb=_BACK[back], only_if=report.switch.value)


def undo_of_other(action: RecordedAction) -> Undo:
    """Return why another action is not undone."""
    return Undo(_FINAL.get(action.what.verb, "This cannot be undone."))
