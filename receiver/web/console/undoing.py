"""What of an action can be undone, said before it is undone."""

from dataclasses import dataclass
from urllib.parse import urlencode

from receiver.core.actions import BURY, RETRY, TAKE_BACK
from receiver.core.recorded_actions import RecordedAction
from receiver.core.text import counted
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.views import waiting_items
from receiver.core.work import HandlerReport, WorkFilter
from receiver.web.console.segments import segment

SWITCHES = {"pause": HandlerSwitch.PAUSED, "resume": HandlerSwitch.ON, "disable": HandlerSwitch.DISABLED}
"""What an action of this name does to a handler's switch."""
_BACK = {to: verb for verb, to in SWITCHES.items()}
_RUNS = ("retry", "run again")
"""What starts work. Of that, what nobody has attempted can be taken back."""
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
        return Undo("Nothing is left to undo: the items were dead before, or somebody has decided since.")
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
