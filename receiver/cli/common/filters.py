"""What a command line chooses: filters of events, jobs and work items, and names of types and handlers."""

import asyncio
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from receiver.cli.common.store import configured_store, now_of, read
from receiver.core.clock import SystemClock
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter, JobState, family_of
from receiver.core.ports.reports import JobReader, Reports
from receiver.core.subjects import parse_query
from receiver.core.text import did_you_mean, escape_controls, resembling
from receiver.core.types import DeliveryState, WorkState, glob_list
from receiver.core.units import depends_on_now, parse_duration, parse_moment
from receiver.core.work import WorkFilter
from receiver.errors import ConfigurationError, ReceiverError, StoreError
from receiver.service.samples import FAMILY_ALIASES
from receiver.settings import load_reading_settings

Command = Callable[..., Any]
Option = Callable[[Command], Command]
"""Adds an option to a command, or several."""
Filter = TypeVar("Filter", DeliveryFilter, WorkFilter, JobFilter)

_MOST = 3


def known_types() -> Sequence[str]:
    """Return the types of the service's events."""
    from receiver.events import EVENT_CLASSES  # the models take long to load

    return sorted(EVENT_CLASSES)


async def hint(reports: Reports, wanted: DeliveryFilter | WorkFilter | JobFilter) -> str:
    """Return `; did you mean …?` for a filter without a match whose type or handler resembles a known name."""
    if wanted.type is not None:
        types = known_types()
        families = sorted({family_of(one) for one in types}) if isinstance(wanted, JobFilter) else []
        if close := _similar(wanted.type, [*types, *families]):
            return did_you_mean(close)
    if not isinstance(wanted, JobFilter) and wanted.handler is not None:
        handlers = await reports.handler_names()
        for glob in glob_list(wanted.handler):
            if close := _similar(glob, handlers):
                return did_you_mean(list(map(escape_controls, close)))
    return ""


def _similar(glob: str, names: Sequence[str]) -> list[str]:
    """Return known names similar to a glob.

    Return none if the glob matches a name: then another condition excluded everything.
    """
    if any(fnmatchcase(name, glob) for name in names):
        return []
    first, dot, rest = glob.partition(".")
    whole = FAMILY_ALIASES.get(first, first) + dot + rest
    if any(fnmatchcase(name, whole) for name in names):
        return [whole]
    ends = [name for name in names if name.endswith(f".{glob}")]
    plain = glob.rstrip("*").rstrip(".")
    return (ends or resembling(plain, names))[:_MOST]


def complete_type(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete `--type`."""
    return completed(known_types(), incomplete)


def complete_handler(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a handler that the configured store knows. Offer none if the store cannot be read."""
    try:
        settings = load_reading_settings()
        if not configured_store(settings).exists():
            return []
        return completed(read(settings, lambda reports: reports.handler_names()), incomplete)
    except ReceiverError:
        return []


def completed(names: Iterable[str], incomplete: str, before: str = "") -> list[CompletionItem]:
    """Return the names that begin like the word at the prompt, each after the text `before`."""
    return [CompletionItem(before + name) for name in names if name.startswith(incomplete)]


class RowId(click.IntRange):
    """The number of a row of the store. The error for other text says which command lists the numbers."""

    def __init__(self, noun: str, listing: str) -> None:
        super().__init__(min=0, max=2**63 - 1)
        self._error = f"is not the number of a {noun}: `{listing}` shows them"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{escape_controls(str(value))!r} {self._error}", param, ctx)


WORK_ID = RowId("work item", "receiver work-items list")
REQUEST_ID = RowId("request in quarantine", "receiver quarantine list")
ACTION_ID = RowId("recorded action", "receiver actions")


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


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


def _query(value: str) -> str:
    """Accept words to search for."""
    try:
        parse_query(text(value))
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None
    return value


def duration(value: str) -> timedelta:
    """Accept a duration, such as the age of an event."""
    try:
        return parse_duration(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


def together(*options: Option) -> Option:
    """Return one decorator that adds several options, in this order in the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _state(states: Iterable[StrEnum]) -> Option:
    return click.option("--state", type=click.Choice([state.value for state in states]), help="Only this state.")


def _handlers(explanation: str) -> Option:
    return click.option(
        "--handler", type=text, metavar="GLOB", multiple=True, shell_complete=complete_handler, help=explanation
    )


text_option = click.option(
    "--text", "words", type=_query, metavar="WORDS", help="Only events with these words in URL, title or error."
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
store_option = click.option(
    "--store", type=text, metavar="URL", help="The store, instead of the one in the settings."
)
plan_options = together(
    click.option("--yes", is_flag=True, help="Do not ask, for scripts."),
    click.option("--dry-run", is_flag=True, help="Show the plan and stop."),
)
"""What every action on many items has."""
list_limit_option = click.option(
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help="Only the newest N; without it 50 on a terminal, and all in a pipe or with --json.",
)
_LIMIT = click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Only the newest N.")
_SPAN = together(
    click.option(
        "--since",
        type=moment,
        metavar="WHEN",
        help="Only from this time on: ISO 8601 (local time without Z or an offset), or 30m, 2h, 7d before now.",
    ),
    click.option("--until", type=moment, metavar="WHEN", help="Only before this time; written like --since."),
)
_FILTERS = together(
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
    _SPAN,
)
_HANDLED = together(
    _handlers("Only events with work for a handler that matches; may be repeated."),
    click.option("--failed", is_flag=True, help="Only events with failed or dead work, of --handler if given."),
)
_OF_WORK = together(
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


def span_options(command: Command) -> Command:
    """Add `--since` and `--until`."""
    return _SPAN(in_time_of_store(command))


def in_time_of_store(command: Command) -> Command:
    """Give a command its moments by the clock of the store: `--since 2h` is two hours before the store's now."""

    @functools.wraps(command)
    def given_moments(*args: Any, **kwargs: Any) -> Any:
        return command(*args, **_in_time_of(kwargs.get("store"), kwargs))

    return given_moments


def _filtering(
    make: type[DeliveryFilter] | type[WorkFilter] | type[JobFilter],
    state_of: Callable[[str], StrEnum],
    *options: Option,
) -> Option:
    """Return what adds the filters and these options as one argument `wanted`."""

    def decorate(command: Command) -> Command:
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

        return together(_FILTERS, *options)(filtered)

    return decorate


def _in_time_of(store: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the moments of a span by the clock of the store, which kept moments are compared with.

    Raises UsageError for a span that ends where it begins, or before that: nothing is in it. If the store's clock
    cannot be read, that of the machine is used: the command reports the error itself, or needs no store.
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


filter_options = _filtering(DeliveryFilter, DeliveryState, _state(DeliveryState), _LIMIT)
"""The filters of events."""
handled_filter_options = _filtering(DeliveryFilter, DeliveryState, _HANDLED, _state(DeliveryState), _LIMIT)
"""The filters of events, also by handler and failure."""
event_list_options = _filtering(DeliveryFilter, DeliveryState, _HANDLED, _state(DeliveryState), list_limit_option)
arrival_filter_options = _filtering(DeliveryFilter, DeliveryState, _state(DeliveryState))
"""The filters of new events."""
job_list_options = _filtering(JobFilter, JobState, _state(JobState), list_limit_option)
work_list_options = _filtering(WorkFilter, WorkState, _OF_WORK, _state(WorkState), list_limit_option)


def work_filter_options(states: Iterable[WorkState]) -> Option:
    """Add the filters of work items, in one of these states, as one argument `wanted`."""
    return _filtering(WorkFilter, WorkState, _OF_WORK, _state(states), _LIMIT)


async def with_whole_job_id(reports: JobReader, wanted: Filter) -> Filter:
    """Return the filter with the whole id of the job that `--job` names by its beginning.

    Raises UnknownJob unless exactly one job has this beginning.
    """
    if wanted.job_id is None:
        return wanted
    return replace(wanted, job_id=await reports.resolve_job(wanted.job_id))
