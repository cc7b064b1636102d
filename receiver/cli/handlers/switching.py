"""The change of handlers' switches, and what it means for each handler."""

from collections.abc import Sequence

from receiver.cli.common.confirm import say
from receiver.cli.common.output import quoted
from receiver.cli.common.recording import recording
from receiver.cli.common.store import configured_store, decide
from receiver.cli.handlers.rows import HandlerRow
from receiver.core.ports.controls import Controls
from receiver.core.text import counted, escape_controls
from receiver.core.types import HandlerSwitch, WorkState
from receiver.settings import Settings

_VERBS = {HandlerSwitch.PAUSED: "pause", HandlerSwitch.ON: "resume", HandlerSwitch.DISABLED: "disable"}


def switch(settings: Settings, chosen: Sequence[HandlerRow], to: HandlerSwitch) -> None:
    """Set the switch of each handler, and say what follows for its work."""

    async def decision(controls: Controls) -> None:
        for row in chosen:
            if row.report.switch is not to:
                choice = {"handler": row.name, "before": row.report.switch.value}
                store = configured_store(settings)
                async with recording(
                    controls, store, _VERBS[to], f"handler {row.name}", planned=1, choice=choice
                ) as recorded:
                    await controls.switch(row.name, to)
                    await recorded.add(seen=1, changed=1)
            say(f"{escape_controls(row.name)} {_effect(row, to)}")

    decide(settings, decision)


def _effect(row: HandlerRow, to: HandlerSwitch) -> str:
    before = row.report.switch
    verb = "was already" if before is to else "is"
    match to:
        case HandlerSwitch.PAUSED:
            now = f" ({counted(row.waiting, 'item')} now)" if row.waiting else ""
            return f"{verb} paused: its work waits until it is resumed{now}"
        case HandlerSwitch.DISABLED:
            return f"{verb} disabled: its waiting and new work is skipped"
        case HandlerSwitch.ON:
            return f"{verb} on{_can_run(row)}{_stays_skipped(row)}"


def _can_run(row: HandlerRow) -> str:
    return f"; {counted(row.waiting, 'item')} can run" if row.waiting else ""


def _stays_skipped(row: HandlerRow) -> str:
    skipped = row.report.counts.get(WorkState.SKIPPED, 0)
    if not skipped and row.report.switch is not HandlerSwitch.DISABLED:
        return ""
    items = counted(skipped, "skipped item") if skipped else "skipped items"
    return f"; `receiver work-items retry --handler {quoted(row.name)} --state skipped` runs {items}"
