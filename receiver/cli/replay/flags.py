"""The options of `receiver replay` as one record, which can be written as a command line again."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import click

from receiver.cli.common.filters import filter_options, json_option, plan_options, store_option, text
from receiver.cli.common.names import complete_handler
from receiver.cli.send import checked_rate
from receiver.core.bulk import Cursor
from receiver.core.clock import iso
from receiver.core.deliveries import DeliveryFilter
from receiver.errors import WrongExpression
from receiver.replay.expressions import compile_expression

_BY_ARRIVAL, _BY_JOB = "arrival", "job"

Value = str | int | float | Path | Cursor | tuple[str, ...] | None
"""A value of an option. None and False mean that the option is absent, True that it has no value."""


class ReplayMode(Enum):
    """Where the events go: the verb of the plan, and the question."""

    HERE = ("replay here", "Run the handlers here now?")
    ENQUEUE = ("enqueue", "Make new work items for the workers?")
    SEND = ("send", "Send them?")


@dataclass(frozen=True, slots=True)
class WrittenCondition:
    """The expression of `--where`: its text, and the function that checks an event."""

    text: str
    holds: Callable[[object], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFlags:
    """Everything that the command line says."""

    bundle: Path | None
    wanted: DeliveryFilter
    handler_globs: tuple[str, ...]
    where: WrittenCondition | None
    order: str
    after: Cursor | None
    record: bool
    frozen_time: bool
    no_network: bool
    reload: bool
    enqueue: bool
    url: str | None
    rate: float | None
    new_ids: bool
    save: Path | None
    compare: Path | None
    router: str | None
    yes: bool
    dry_run: bool
    planned: bool
    as_json: bool
    store: str | None

    @property
    def mode(self) -> ReplayMode:
        """Where the events go."""
        return ReplayMode.ENQUEUE if self.enqueue else ReplayMode.SEND if self.url else ReplayMode.HERE

    @property
    def by_job(self) -> bool:
        """Whether events come job by job."""
        return self.order == _BY_JOB

    def options(self) -> Mapping[str, Value]:
        """Return the given options with their values."""
        wanted = self.wanted
        every: dict[str, Value] = {
            "--type": wanted.type,
            "--job": wanted.job_id,
            "--since": None if wanted.since is None else iso(wanted.since),
            "--until": None if wanted.until is None else iso(wanted.until),
            "--state": wanted.state and wanted.state.value,
            "--limit": wanted.limit,
            "--failed": wanted.failed,
            "--handler": self.handler_globs or None,
            "--where": None if self.where is None else self.where.text,
            "--order": self.order if self.by_job else None,
            "--after": self.after,
            "--record": self.record,
            "--frozen-time": self.frozen_time,
            "--no-network": self.no_network,
            "--reload": self.reload,
            "--enqueue": self.enqueue,
            "--to": self.url,
            "--rate": self.rate,
            "--new-ids": self.new_ids,
            "--save": self.save,
            "--compare": self.compare,
            "--handlers": self.router,
            "--yes": self.yes,
            "--dry-run": self.dry_run,
            "--planned": self.planned,
            "--json": self.as_json,
            "--store": self.store,
        }
        return {option: value for option, value in every.items() if value is not None and value is not False}

    def arguments(self) -> list[str]:
        """Return the command line that gives these flags, without the name of the program."""
        words = ["replay"]
        for option, value in self.options().items():
            if value is True:
                words.append(option)
                continue
            for one in value if isinstance(value, tuple) else (value,):
                words += [option, str(one)]
        return words if self.bundle is None else [*words, "--", str(self.bundle)]


def replay_options(command: Callable[[ReplayFlags], int]) -> Callable[..., int]:
    """Add the options and the argument of `receiver replay` as one argument."""

    @functools.wraps(command)
    def collected(**given: Any) -> int:
        return command(ReplayFlags(**given))

    decorated: Callable[..., int] = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


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


_existing_file = click.Path(path_type=Path, exists=True, dir_okay=False)
_file = click.Path(path_type=Path, dir_okay=False)

_OPTIONS: tuple[Callable[[Callable[..., int]], Callable[..., int]], ...] = (
    click.argument("bundle", metavar="[BUNDLE]", required=False, type=_existing_file),
    filter_options,
    click.option(
        "--handler",
        "handler_globs",
        type=text,
        metavar="GLOB",
        multiple=True,
        shell_complete=complete_handler,
        help="Only these handlers, such as '*.save'; may be repeated.",
    ),
    click.option("--failed", is_flag=True, help="Only failed or dead work, for the handlers that failed."),
    click.option(
        "--where",
        type=_condition,
        metavar="EXPR",
        help="Only events for which this is true, such as 'data.0.metadata.statusCode >= 400'.",
    ),
    click.option(
        "--order",
        type=click.Choice([_BY_ARRIVAL, _BY_JOB]),
        default=_BY_ARRIVAL,
        show_default=True,
        help="The oldest first, or job by job.",
    ),
    click.option(
        "--after", type=_cursor, metavar="PLACE", help="Go on at the place that a stopped replay printed."
    ),
    click.option("--record", is_flag=True, help="Store the results as work items."),
    click.option(
        "--frozen-time", is_flag=True, help="Let handlers see the time of arrival: ctx.now, datetime, time."
    ),
    click.option("--no-network", is_flag=True, help="Refuse every outgoing connection."),
    click.option("--reload", is_flag=True, help="Run again whenever a Python file of this folder changes."),
    click.option("--enqueue", is_flag=True, help="Make new work items for the workers instead."),
    click.option("--to", "url", metavar="URL", help="Send the exact bytes to URL instead, newly signed."),
    click.option("--rate", type=checked_rate, metavar="R", help="With --to: deliveries per second."),
    click.option("--new-ids", is_flag=True, help="With --to: new webhookIds, so that none is a duplicate."),
    click.option("--save", type=_file, metavar="FILE", help="Write what each handler returned or raised to FILE."),
    click.option(
        "--compare", type=_file, metavar="FILE", help="Compare the results with a FILE that --save wrote."
    ),
    click.option("--handlers", "router", metavar="MODULE:ROUTER", help="The router with your handlers."),
    plan_options,
    click.option("--planned", is_flag=True, hidden=True, help="Show no plan and do not ask."),
    json_option,
    store_option,
)
