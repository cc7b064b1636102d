"""What `receiver replay` was asked for: its options, which of them go together, and the replay that runs."""

import functools
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import click

from receiver.cli.common.filters import (
    complete_handler,
    filter_options,
    json_option,
    plan_options,
    store_option,
    text,
    together,
)
from receiver.cli.common.output import note
from receiver.cli.common.store import UnreadableEvents
from receiver.cli.send import checked_rate
from receiver.core.bulk import Cursor, DeliveryPlan
from receiver.core.clock import iso
from receiver.core.deliveries import DeliveryFilter
from receiver.core.ports.reports import Reports
from receiver.core.ports.store import Controls, Store
from receiver.core.text import escape_controls
from receiver.errors import WrongExpression
from receiver.replay.expressions import compile_expression
from receiver.replay.selection import Chosen, Selection
from receiver.routing import Router
from receiver.settings import Settings

_BY_ARRIVAL, _BY_JOB = "arrival", "job"


class ReplayMode(Enum):
    """Where the events go: the verb of the plan, and the question."""

    HERE = ("replay here", "Run the handlers here now?")
    ENQUEUE = ("enqueue", "Make new work items for the workers?")
    SEND = ("send", "Send them?")


@dataclass(frozen=True, slots=True)
class WrittenCondition:
    """The expression of `--where`, and the function that checks an event."""

    text: str
    holds: Callable[[object], bool]

    def __str__(self) -> str:
        return self.text


def _condition(written: str) -> WrittenCondition:
    try:
        return WrittenCondition(written, compile_expression(written))
    except WrongExpression as exc:
        raise click.BadParameter(str(exc)) from None


def _cursor(written: str) -> Cursor:
    try:
        return Cursor.parse(written)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


def _flag(name: str, explanation: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(name, is_flag=True, help=explanation, **more)


_existing_file = click.Path(path_type=Path, exists=True, dir_okay=False)
_file = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFlags:
    """Everything that the command line says. The annotation of a field makes its options, in this order."""

    bundle: Annotated[
        Path | None, click.argument("bundle", metavar="[BUNDLE]", required=False, type=_existing_file)
    ]
    wanted: Annotated[
        DeliveryFilter, filter_options, _flag("--failed", "Only failed or dead work, for the handlers that failed.")
    ]
    handler_globs: Annotated[
        tuple[str, ...],
        click.option(
            "--handler",
            "handler_globs",
            type=text,
            metavar="GLOB",
            multiple=True,
            shell_complete=complete_handler,
            help="Only these handlers, such as '*.save'; may be repeated.",
        ),
    ]
    where: Annotated[
        WrittenCondition | None,
        click.option(
            "--where",
            type=_condition,
            metavar="EXPR",
            help="Only events for which this is true, such as 'data.0.metadata.statusCode >= 400'.",
        ),
    ]
    order: Annotated[
        str,
        click.option(
            "--order",
            type=click.Choice([_BY_ARRIVAL, _BY_JOB]),
            default=_BY_ARRIVAL,
            show_default=True,
            help="The oldest first, or job by job.",
        ),
    ]
    after: Annotated[
        Cursor | None,
        click.option(
            "--after", type=_cursor, metavar="PLACE", help="Continue at the place that a stopped replay printed."
        ),
    ]
    record: Annotated[bool, _flag("--record", "Store the results as work items.")]
    frozen_time: Annotated[
        bool, _flag("--frozen-time", "Let handlers see the time of arrival: ctx.now, datetime, time.")
    ]
    no_network: Annotated[bool, _flag("--no-network", "Refuse every outgoing connection.")]
    reload: Annotated[bool, _flag("--reload", "Run again whenever a Python file of this folder changes.")]
    enqueue: Annotated[bool, _flag("--enqueue", "Make new work items for the workers instead.")]
    url: Annotated[
        str | None,
        click.option("--to", "url", metavar="URL", help="Send the exact bytes to URL instead, newly signed."),
    ]
    rate: Annotated[
        float | None,
        click.option("--rate", type=checked_rate, metavar="R", help="With --to: deliveries per second."),
    ]
    new_ids: Annotated[bool, _flag("--new-ids", "With --to: new webhookIds, so that none is a duplicate.")]
    save: Annotated[
        Path | None,
        click.option(
            "--save", type=_file, metavar="FILE", help="Write what each handler returned or raised to FILE."
        ),
    ]
    compare: Annotated[
        Path | None,
        click.option(
            "--compare", type=_file, metavar="FILE", help="Compare the results with a FILE that --save wrote."
        ),
    ]
    router: Annotated[
        str | None,
        click.option("--handlers", "router", metavar="MODULE:ROUTER", help="The router with your handlers."),
    ]
    yes: Annotated[bool, plan_options]
    dry_run: bool
    planned: Annotated[bool, _flag("--planned", "Show no plan and do not ask.", hidden=True)]
    as_json: Annotated[bool, json_option]
    store: Annotated[str | None, store_option]

    @property
    def mode(self) -> ReplayMode:
        """Where the events go."""
        return ReplayMode.ENQUEUE if self.enqueue else ReplayMode.SEND if self.url else ReplayMode.HERE

    @property
    def by_job(self) -> bool:
        """Whether events come job by job."""
        return self.order == _BY_JOB

    def options(self) -> dict[str, object]:
        """Return the given options with their values; True is one without a value."""
        found = {}
        for option in _COMMAND.params:
            if isinstance(option, click.Option) and option.name:
                value = getattr(self if hasattr(self, option.name) else self.wanted, option.name)
                if value not in (None, False, (), option.default):
                    found[option.opts[0]] = value
        return found

    def arguments(self) -> list[str]:
        """Return the command line that gives these flags, without the name of the program."""
        words = ["replay"]
        for option, value in self.options().items():
            for one in value if isinstance(value, tuple) else (value,):
                shown = iso(one) if isinstance(one, datetime) else str(one)
                words += [option] if one is True else [option, shown]
        return words if self.bundle is None else [*words, "--", str(self.bundle)]


def replay_options(command: Callable[[ReplayFlags], int]) -> Callable[..., int]:
    """Add the options and the argument of `receiver replay` as one argument."""

    @functools.wraps(command)
    def collected(**given: Any) -> int:
        return command(ReplayFlags(**given))

    hints = get_type_hints(ReplayFlags, include_extras=True).values()
    return together(*(option for hint in hints for option in getattr(hint, "__metadata__", ())))(collected)


_COMMAND = click.command()(replay_options(lambda flags: 0))
"""Knows the options, for `ReplayFlags.options`."""
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
        note(f"to continue where this stopped:\n  {escape_controls(command)}")
