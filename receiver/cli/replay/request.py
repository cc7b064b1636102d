"""One replay as it was asked for and agreed to."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from receiver.cli.common.output import iso, note
from receiver.core.bulk import Cursor, DeliveryPlan
from receiver.core.ports.controls import Controls
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Store
from receiver.core.text import escape_controls
from receiver.replay.selection import Selection
from receiver.routing import Router
from receiver.settings import Settings


class ReplayMode(Enum):
    """What becomes of the deliveries: the verb of the plan, and the question."""

    HERE = ("replay here", "Run the handlers here and now?")
    ENQUEUE = ("enqueue", "Make new work items for the workers?")
    SEND = ("send", "Send them?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the command line asks for beside the choice of deliveries."""

    way: ReplayMode
    record: bool
    frozen_time: bool
    no_network: bool
    url: str | None
    rate: float | None
    new_ids: bool
    save: Path | None
    compare: Path | None
    as_json: bool
    yes: bool
    dry_run: bool
    planned: bool


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """One replay that has been agreed to."""

    settings: Settings
    store: Store
    reports: Reports
    router: Router
    choice: Selection
    plan: DeliveryPlan
    options: ReplayOptions
    outer: AsyncExitStack
    """Closed after the reports: the last connection to close has to be one that may empty the log of a database."""

    async def controls(self) -> Controls:
        """Open the store for writing."""
        return await self.outer.enter_async_context(self.store.controls())

    def tell_how_to_go_on(self, place: Cursor | None) -> None:
        """Say on standard error how to continue after this place, with the same deliveries still to come."""
        if self.options.planned:
            return  # it begins anew with the next change
        wanted = self.choice.wanted
        moments = {"--since": wanted.since, "--until": wanted.until}
        instead = {flag: iso(moment) for flag, moment in moments.items() if moment is not None}
        if place is not None:
            instead["--after"] = str(place)
        note(f"to go on where this stopped:\n  {escape_controls(shlex.join(_with(sys.argv[1:], instead)))}")


def _with(arguments: Sequence[str], instead: Mapping[str, str]) -> Sequence[str]:
    """Return a command line of ours with these values for these options, which it may have already."""
    kept = ["receiver"]
    rest = iter(arguments)
    for one in rest:
        if one in instead:
            next(rest, None)
        elif one.partition("=")[0] not in instead:
            kept.append(one)
    options = [word for option in instead.items() for word in option]
    return [*kept[:2], *options, *kept[2:]]
