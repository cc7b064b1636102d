"""Options of several commands: the filters of listings and of actions on many items, the store, the output."""

import asyncio
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

import click

from receiver.cli.common.names import complete_handler, complete_type
from receiver.cli.common.store import configured_store, now_of
from receiver.core.clock import SystemClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter, JobState
from receiver.core.ports.reports import JobReader
from receiver.core.subjects import parse_query
from receiver.core.text import escape_controls
from receiver.core.types import DeliveryState, WorkState
from receiver.core.units import depends_on_now, parse_duration, parse_moment
from receiver.core.work import WorkFilter
from receiver.errors import ConfigurationError, StoreError
from receiver.settings import load_reading_settings


# FOLDED: Ids that are numbers of rows, on the command line.
class RowId(click.IntRange):
    """The number of a row of the store. The error for other text says which command lists the numbers."""

    def __init__(self, noun: str, listing: str) -> None:
        super().__init__(min=0, max=2**63 - 1)
        self._error = f"is not the number of a {noun}: `{listing}` shows them"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or raise BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{escape_controls(str(value))!r} {self._error}", param, ctx)


WORK_ID = RowId("work item", "receiver work-items list")
REQUEST_ID = RowId("request in quarantine", "receiver quarantine list")
ACTION_ID = RowId("recorded action", "receiver actions")


# FOLDED: Numbers on the command line, whose errors are plain sentences: `'abc' is not a valid number`.
class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


Command = Callable[..., Any]


def text(value: str) -> str:
    """Accept a text that is UTF-8. Other bytes reach Python as lone surrogates, which no store takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{escape_controls(value)} is not UTF-8 text") from None
    return value


def moment(value: str) -> datetime | str:
    """Accept a moment. One that depends on now stays as it is written, for `in_time_of_store`."""
    try:
        found = parse_moment(value, SystemClock().now())
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None
    return value if depends_on_now(value) else found


def query(value: str) -> str:
    """Accept words to search for."""
    try:
        parse_query(text(value))
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None
    return value


def text_option(command: Command) -> Command:
    """Add `--text WORDS` as the argument `words`."""
    words = "Only events with these words in URL, title or error."
    return click.option("--text", "words", type=query, metavar="WORDS", help=words)(command)


def duration(value: str) -> timedelta:
    """Accept a duration, such as the age of an event."""
    try:
        return parse_duration(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


def json_option(command: Command) -> Command:
    """Add `--json`, which every listing has, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")(command)


def store_option(command: Command) -> Command:
    """Add `--store URL` as the argument `store`; None means the settings decide."""
    return click.option("--store", type=text, metavar="URL", help="The store, instead of the one in the settings.")(
        command
    )


def span_options(command: Command) -> Command:
    """Add `--since` and `--until`."""

    decorated = in_time_of_store(command)
    for option in reversed(_SPAN):
        decorated = option(decorated)
    return decorated


def in_time_of_store(command: Command) -> Command:
    """Give a command its moments by the clock of the store: `--since 2h` is two hours before the store's now."""

    @functools.wraps(command)
    def given_moments(*args: Any, **kwargs: Any) -> Any:
        return command(*args, **_in_time_of(kwargs.get("store"), kwargs))

    return given_moments


def list_limit_option(command: Command) -> Command:
    """Add the `--limit` of a listing."""
    return _LIST_LIMIT(command)


def plan_options(command: Command) -> Command:
    """Add `--yes` and `--dry-run`, which every action on many items has."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the plan and stop."),
        click.option("--yes", is_flag=True, help="Do not ask, for scripts."),
    ):
        command = option(command)
    return command


def filter_options(command: Command) -> Command:
    """Add the filters of events as one argument `wanted`, a DeliveryFilter."""
    return _filtered(command, (*_FILTERS, _state(DeliveryState), _LIMIT), DeliveryFilter, DeliveryState)


def handled_filter_options(command: Command) -> Command:
    """Add the filters of events, also by handler and failure, as one argument `wanted`, a DeliveryFilter."""
    options = (*_FILTERS, *_HANDLED, _state(DeliveryState), _LIMIT)
    return _filtered(command, options, DeliveryFilter, DeliveryState)


def event_list_options(command: Command) -> Command:
    """Add the filters of a listing of events as one argument `wanted`, a DeliveryFilter."""
    options = (*_FILTERS, *_HANDLED, _state(DeliveryState), _LIST_LIMIT)
    return _filtered(command, options, DeliveryFilter, DeliveryState)


def arrival_filter_options(command: Command) -> Command:
    """Add the filters of new events, without `--limit`, as one argument `wanted`, a DeliveryFilter."""
    return _filtered(command, (*_FILTERS, _state(DeliveryState)), DeliveryFilter, DeliveryState)


def job_list_options(command: Command) -> Command:
    """Add the filters of a listing of jobs as one argument `wanted`, a JobFilter."""
    return _filtered(command, (*_FILTERS, _state(JobState), _LIST_LIMIT), JobFilter, JobState)


def work_list_options(command: Command) -> Command:
    """Add the filters of a listing of work items as one argument `wanted`, a WorkFilter."""
    return _filtered(command, (*_FILTERS, *_OF_WORK, _state(WorkState), _LIST_LIMIT), WorkFilter, WorkState)


def work_filter_options(states: Iterable[WorkState]) -> Callable[[Command], Command]:
    """Add the filters of work items, also by handler, as one argument `wanted`, a WorkFilter."""
    options = (*_FILTERS, *_OF_WORK, _state(tuple(states)), _LIMIT)
    return lambda command: _filtered(command, options, WorkFilter, WorkState)


def _filtered(
    command: Command,
    options: Sequence[Callable[[Command], Command]],
    make: type[DeliveryFilter] | type[WorkFilter] | type[JobFilter],
    state_of: Callable[[str], StrEnum],
) -> Command:
    @functools.wraps(command)
    def filtered(*args: Any, state: str | None = None, **kwargs: Any) -> Any:
        kwargs = _in_time_of(kwargs.get("store"), kwargs)
        given: dict[str, Any] = {
            field.name: kwargs.pop(field.name) for field in fields(make) if field.name in kwargs
        }
        if "handler" in given:
            given["handler"] = given["handler"] or None
        given["state"] = None if state is None else state_of(state)
        return command(*args, wanted=make(**given), **kwargs)

    decorated: Command = filtered
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _in_time_of(store: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the moments of a span by the clock of the store, which kept moments are compared with.

    Raises UsageError for a span that ends where it begins, or before that: nothing is in it. Where the clock cannot
    be asked, the machine's must do: the command tells that itself, or needs no store.
    """
    given = given | _moments(store, given)
    since, until = given.get("since"), given.get("until")
    if since is not None and until is not None and since >= until:
        raise click.UsageError("nothing can match: --since is not before --until")
    return given


def _moments(store: str | None, given: dict[str, Any]) -> dict[str, datetime]:
    written = {name: given[name] for name in ("since", "until") if isinstance(given.get(name), str)}
    if not written:
        return {}
    try:
        now = asyncio.run(now_of(configured_store(load_reading_settings(store=store))))
    except (StoreError, ConfigurationError):
        now = SystemClock().now()
    return {name: parse_moment(text, now) for name, text in written.items()}


def _handlers(explanation: str) -> Callable[[Command], Command]:
    return click.option(
        "--handler",
        type=text,
        metavar="GLOB",
        multiple=True,
        shell_complete=complete_handler,
        help=explanation,
    )


_SPAN = (
    click.option(
        "--since",
        type=moment,
        metavar="WHEN",
        help="Only from this time on: ISO 8601 (local time without Z or an offset), or 30m, 2h, 7d before now.",
    ),
    click.option("--until", type=moment, metavar="WHEN", help="Only before this time; written like --since."),
)
_FILTERS = (
    click.option(
        "--type",
        type=text,
        metavar="GLOB",
        shell_complete=complete_type,
        help="Only types that match, such as 'crawl.*'.",
    ),
    click.option(
        "--job", "job_id", type=text, metavar="ID", help="Only this job, or check of a monitor; may be shortened."
    ),
    *_SPAN,
)
_OF_WORK = (
    _handlers("Only handlers that match, such as '*.save'; may be repeated."),
    click.option(
        "--error",
        type=text,
        metavar="GLOB",
        help="Only items whose last error, or what they wait for, matches, such as 'TimeoutError*'.",
    ),
    click.option(
        "--action",
        type=ACTION_ID,
        metavar="ID",
        help="Only items that this action decided about last; `receiver actions` lists them.",
    ),
)
_HANDLED = (
    _handlers("Only events with work for a handler that matches; may be repeated."),
    click.option("--failed", is_flag=True, help="Only events with failed or dead work, of --handler if given."),
)
_LIMIT = click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Only the newest N.")
_LIST_LIMIT = click.option(
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help="Only the newest N; without it 50 on a terminal, and all in a pipe or with --json.",
)


def _state(states: Iterable[StrEnum]) -> Callable[[Command], Command]:
    return click.option("--state", type=click.Choice([state.value for state in states]), help="Only this state.")


# FOLDED: The shortened job ids that `--job` takes.
Filter = TypeVar("Filter", DeliveryFilter, WorkFilter, JobFilter)


async def with_whole_job_id(reports: JobReader, wanted: Filter) -> Filter:
    """Return the filter with the whole id of the job that `--job` names by its beginning.

    Raises UnknownJob if no job begins so, or several do.
    """
    if wanted.job_id is None:
        return wanted
    return replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
