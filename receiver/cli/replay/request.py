"""The options of `receiver replay` that exclude or need each other."""

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import click

from receiver.cli.common.filters import UnreadableEvents
from receiver.cli.common.output import note
from receiver.cli.replay.flags import ReplayFlags
from receiver.core.bulk import Cursor, DeliveryPlan
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Store
from receiver.core.text import escape_controls
from receiver.replay.selection import Chosen, Selection
from receiver.routing import Router
from receiver.settings import Settings

_BUNDLE = "BUNDLE"

_CONFLICTS: Sequence[tuple[Sequence[str], Sequence[str], str]] = (
    (["--enqueue"], ["--to"], "--enqueue and --to exclude each other: choose one"),
    (
        ["--record", "--frozen-time", "--no-network", "--reload", "--save", "--compare"],
        ["--enqueue", "--to"],
        "{given}: only if handlers run here, without --enqueue and --to",
    ),
    (["--handler"], ["--to"], "--handler chooses handlers here; with --to they run elsewhere"),
    (["--enqueue", "--record"], [_BUNDLE], "a bundle is not in the store: run `receiver events import` first"),
    (["--failed", "--state"], [_BUNDLE], "{given}: a bundle has no work items to choose by"),
)
"""None of the first options goes with any of the second; `{given}` lists those of the first that were given."""

_NEEDS: Sequence[tuple[Sequence[str], str]] = ((["--rate", "--new-ids"], "--to"),)
"""Each of the first options needs the second."""


def check_combination(flags: ReplayFlags) -> None:
    """Raise UsageError for options that do not go together, and for a file to compare with that is not there."""
    given = {*flags.options(), *([] if flags.bundle is None else [_BUNDLE])}
    for options, others, message in _CONFLICTS:
        if (refused := [one for one in options if one in given]) and given.intersection(others):
            raise click.UsageError(message.format(given=", ".join(refused)))
    for options, needed in _NEEDS:
        if (refused := [one for one in options if one in given]) and needed not in given:
            verb = "needs" if len(refused) == 1 else "need"
            raise click.UsageError(f"{' and '.join(refused)} {verb} {needed}")
    if flags.save and flags.compare and flags.save.resolve() == flags.compare.resolve():
        raise click.UsageError("--save would replace the file that --compare reads: name another one")
    if flags.compare is not None and not flags.compare.exists():
        raise click.UsageError(f"--compare: there is no file {escape_controls(str(flags.compare))}")
    if flags.after is not None and flags.after.job_id is not None and not flags.by_job:
        raise click.UsageError(f"--after {flags.after} is a place in the order of jobs: add --order job")


# FOLDED: One replay that somebody has agreed to.
@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The flags of a replay, the chosen events, their plan, and the open store."""

    settings: Settings
    store: Store
    reports: Reports
    router: Router
    selection: Selection
    plan: DeliveryPlan
    flags: ReplayFlags
    outer: AsyncExitStack
    """Closed after the reports: the last connection to close must be one that may empty the write-ahead log."""
    unreadable: UnreadableEvents = field(default_factory=UnreadableEvents)
    """The events that were left out so far."""

    async def chosen(self) -> AsyncIterator[Chosen]:
        """Yield the chosen events in their order, and count those whose bodies cannot be read."""
        async for one in self.selection.of(self.reports):
            self.unreadable.leaves_out(one.stored)
            yield one

    async def controls(self) -> Controls:
        """Open the store for writing."""
        return await self.outer.enter_async_context(self.store.controls())

    def note_continuation(self, place: Cursor | None) -> None:
        """Print the command on standard error that continues after this place, with the same events."""
        if self.flags.planned:
            return  # --reload begins again with the next change
        rest = replace(self.flags, wanted=self.selection.wanted, after=place or self.flags.after)
        command = shlex.join(["receiver", *rest.arguments()])
        note(f"to go on where this stopped:\n  {escape_controls(command)}")
