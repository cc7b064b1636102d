"""`receiver handlers`: how each handler is doing, and whether it runs."""

import difflib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import json_option, plan_options, store_option, text
from receiver.cli.common.output import duration, flush, note, quoted, shown, write_bytes
from receiver.cli.common.store import decide, read
from receiver.cli.common.tables import Column, Listing
from receiver.core.ports.controls import Controls
from receiver.core.text import counted, did_you_mean, escape_controls
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.work import HandlerReport
from receiver.errors import ConfigurationError
from receiver.routing.loader import load_router
from receiver.service.samples import encode
from receiver.settings import Settings, export_env_file, load_settings

_WAITING = (WorkState.WAITING, WorkState.QUEUED, WorkState.HELD)
_STYLES = {HandlerSwitch.PAUSED: "yellow", HandlerSwitch.DISABLED: "dim"}
_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class HandlerRow:
    """A handler with what the store tells of it. `in_code` is None when the code did not import."""

    report: HandlerReport
    in_code: bool | None

    @property
    def name(self) -> HandlerName:
        """Return its name."""
        return self.report.name

    @property
    def waiting(self) -> int:
        """Return how many of its work items wait, are queued or held."""
        return sum(self.report.counts.get(state, 0) for state in _WAITING)


@click.group()
def handlers() -> None:
    """Look at handlers, and pause, resume or disable them for all workers, until it is decided otherwise.

    What is paused piles up and runs after a resume. What is disabled is recorded as skipped, and runs only if it
    is retried.
    """


def _deployment(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says which handlers and which store are meant."""
    option = click.option("--handlers", type=text, metavar="MODULE:ROUTER", help="The router with your handlers.")
    return option(store_option(command))


@handlers.command("list")
@json_option
@_deployment
def list_(as_json: bool, **flags: str | None) -> None:
    """List every handler in the code, and every other that the store knows."""
    settings = load_settings(**flags)
    rows = _rows(read(settings, lambda reports: reports.handlers()), names_in_code(settings))
    if as_json:
        for row in rows:
            write_bytes(encode(handler_fields(row)) + b"\n")
        return
    _LISTING.write_rows(rows)
    flush()
    for row in rows:
        if row.in_code is False and row.waiting:
            note(left_waiting(row.name, row.waiting))
    if not rows:
        note("no handler is in the code, or known to the store")


@handlers.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=text)
@_deployment
def pause(names: Sequence[str], **flags: str | None) -> None:
    """Let the work of handlers wait until they are resumed; a NAME may be a glob.

    What runs now runs to its end. What comes piles up, and nothing is lost.
    """
    settings = load_settings(**flags)
    _switch(settings, _chosen(settings, names), HandlerSwitch.PAUSED)


@handlers.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=text)
@_deployment
def resume(names: Sequence[str], **flags: str | None) -> None:
    """Let handlers run again, with what has piled up; a NAME may be a glob."""
    settings = load_settings(**flags)
    _switch(settings, _chosen(settings, names), HandlerSwitch.ON)


@handlers.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=text)
@plan_options
@_deployment
def disable(names: Sequence[str], yes: bool, dry_run: bool, **flags: str | None) -> int:
    """Skip the work of handlers, what waits now and what comes; a NAME may be a glob.

    A plan is shown first. What is skipped runs only if it is retried.
    """
    settings = load_settings(**flags)
    chosen = _chosen(settings, names, ask_code=True)
    for line in _disabling(chosen):
        say(line)
    if dry_run:
        return OK
    if not agreed(f"Disable {counted(len(chosen), 'handler')}?", yes=yes):
        return FAILED
    _switch(settings, chosen, HandlerSwitch.DISABLED)
    return OK


def names_in_code(settings: Settings) -> Collection[HandlerName] | None:
    """Import the router and return its handlers' names; None, told on standard error, if it does not import.

    What the code writes to standard output meanwhile goes to standard error.
    """
    export_env_file()
    try:
        with redirect_stdout(sys.stderr):
            router = load_router(settings.handlers, folder=Path.cwd())
    except ConfigurationError as exc:
        note(f"receiver: {escape_controls(str(exc))}; only what the store knows is looked at")
        return None
    return [handler.name for handler in router]


def left_waiting(name: HandlerName, waiting: int) -> str:
    """Return what to know and to do about the waiting work of a handler that is no longer in the code."""
    items = f"{counted(waiting, 'waiting item')} {'stays' if waiting == 1 else 'stay'}"
    return (
        f"{escape_controls(name)} is not in the code: its {items} until it is back, or until "
        f"`receiver work-items bury --handler {quoted(name)} --reason TEXT`"
    )


def handler_fields(row: HandlerRow) -> dict[str, Any]:
    """Return a handler as the listing's JSON has it, with a count for every state."""
    report = row.report
    return {
        "name": report.name,
        "switch": report.switch.value,
        "in_code": row.in_code,
        "counts": {state.value: report.counts.get(state, 0) for state in WorkState},
        "last_error": report.last_error,
        "latency_seconds": None if report.latency is None else report.latency.total_seconds(),
    }


def _rows(reports: Sequence[HandlerReport], in_code: Collection[HandlerName] | None) -> list[HandlerRow]:
    """Join what the store knows with what is in the code, by name."""
    known = {report.name: report for report in reports}
    names = sorted({*known, *(in_code or ())})
    return [
        HandlerRow(
            known.get(name) or HandlerReport(name, HandlerSwitch.ON, {}, None, None),
            None if in_code is None else name in in_code,
        )
        for name in names
    ]


def _chosen(settings: Settings, words: Sequence[str], *, ask_code: bool = False) -> list[HandlerRow]:
    """Return the handlers that these names and globs stand for; one that stands for none is wrong use.

    Unless asked to, this imports the code only if the store alone cannot tell: pausing has to be quick.
    """
    reports = read(settings, lambda reports: reports.handlers())
    ask_code |= not {report.name for report in reports}.issuperset(words)
    rows = _rows(reports, names_in_code(settings) if ask_code else None)
    names = [row.name for row in rows]
    for word in words:
        if not any(_fits(name, word) for name in names):
            raise ConfigurationError(_unknown(word, names))
    return [row for row in rows if any(_fits(row.name, word) for word in words)]


def _fits(name: str, word: str) -> bool:
    return name == word or fnmatchcase(name, word)


def _unknown(word: str, names: Sequence[str]) -> str:
    if _MAGIC & set(word):
        return f"no handler matches {escape_controls(word)!r}; `receiver handlers list` shows what there is"
    ending = [name for name in names if name.endswith(f".{word}")]
    close = (ending or difflib.get_close_matches(word, names, n=3, cutoff=0.6))[:3]
    hint = did_you_mean(list(map(escape_controls, close))) or "."
    return f"there is no handler {escape_controls(word)!r}{hint} `receiver handlers list` shows what there is"


def _switch(settings: Settings, chosen: Sequence[HandlerRow], to: HandlerSwitch) -> None:
    """Set the switches and say what that means for each handler."""

    async def decision(controls: Controls) -> None:
        for row in chosen:
            if row.report.switch is not to:
                await controls.switch(row.name, to)
            say(f"{escape_controls(row.name)} {_meaning(row, to)}")

    decide(settings, decision)


def _meaning(row: HandlerRow, to: HandlerSwitch) -> str:
    was = row.report.switch
    already = "was already" if was is to else "is"
    match to:
        case HandlerSwitch.PAUSED:
            now = f" ({counted(row.waiting, 'item')} now)" if row.waiting else ""
            return f"{already} paused: its work waits until it is resumed{now}"
        case HandlerSwitch.DISABLED:
            return f"{already} disabled: what waits and what comes is skipped"
        case HandlerSwitch.ON:
            run = f"; {counted(row.waiting, 'item')} can run" if row.waiting else ""
            skipped = row.report.counts.get(WorkState.SKIPPED, 0)
            what = counted(skipped, "skipped item") if skipped else "what was skipped"
            again = (
                f"; {what} can be run with `receiver work-items retry --handler {quoted(row.name)} --state skipped`"
            )
            return f"{already} on{run}" + (again if skipped or was is HandlerSwitch.DISABLED else "")


def _disabling(chosen: Sequence[HandlerRow]) -> Iterator[str]:
    total = sum(row.waiting for row in chosen)
    yield f"{counted(len(chosen), 'handler')} to disable, {counted(total, 'waiting item')} to skip"
    for row in chosen:
        yield f"    {row.waiting:>11,}  {escape_controls(row.name)}"
        if row.in_code is False and row.waiting:
            yield "                 not in the code, so no worker skips these: bury them"


def _latency(latency: timedelta | None) -> str:
    return "-" if latency is None else duration(latency)


def _count(state: WorkState) -> Callable[[HandlerRow], str]:
    return lambda row: str(row.report.counts.get(state, 0))


_IN_CODE: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}
_COLUMNS: tuple[Column[HandlerRow], ...] = (
    Column("handler", lambda row: row.name, 40, 24, most=36, keeps_end=True),
    Column("switch", lambda row: row.report.switch.value, 8, 8),
    Column("code", lambda row: _IN_CODE[row.in_code], 4, 4),
    Column("waiting", lambda row: str(row.waiting), 8, 7, most=9, right=True),
    Column("running", _count(WorkState.RUNNING), 7, 7, rank=3, right=True),
    Column("done", _count(WorkState.DONE), 9, 7, most=9, right=True),
    Column("dead", _count(WorkState.DEAD), 8, 6, most=8, right=True),
    Column("skipped", _count(WorkState.SKIPPED), 8, 7, rank=2, right=True),
    Column("median", lambda row: _latency(row.report.latency), 10, 8, most=10, right=True),
    Column(
        "last error",
        lambda row: shown(row.report.last_error),
        0,
        20,
        most=200,
        rank=1,
        in_table=lambda row: row.report.last_error or "",
    ),
)
_LISTING = Listing("handler", _COLUMNS, handler_fields, lambda row: _STYLES.get(row.report.switch, ""))
