"""`receiver handlers`: the handlers of the code and of the store, and their switches."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import complete_handler, plan_options, store_option, text, together
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import duration, note, quoted
from receiver.cli.common.store import configured_store, decide, read, recording
from receiver.cli.common.tables import NOTHING, Column, ListForm, Listing, form_options
from receiver.core.clock import local_time
from receiver.core.ports.store import Controls
from receiver.core.text import counted, did_you_mean, escape_controls, resembling
from receiver.core.types import HandlerName, HandlerSwitch, WorkState
from receiver.core.views import handler_row, waiting_items
from receiver.core.work import HandlerReport
from receiver.errors import ConfigurationError
from receiver.routing import Router
from receiver.routing.loader import load_router, watched_import
from receiver.settings import Settings, export_env_file, load_reading_settings, load_settings


@click.group(cls=CommandGroup)
def handlers() -> None:
    """Look at handlers; pause, resume or disable them.

    This holds for all workers, also after a restart. The work of a paused handler waits, and runs after a resume.
    The work of a disabled handler is recorded as skipped, and runs only after `receiver work-items retry`.
    """


_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class HandlerRow:
    """A handler with its figures from the store. `registered` is None when the code could not be imported."""

    report: HandlerReport
    registered: bool | None

    @property
    def name(self) -> HandlerName:
        """Its name."""
        return self.report.name

    @property
    def waiting(self) -> int:
        """How many of its work items have not started."""
        return waiting_items(self.report)


deployment_options = together(
    click.option("--handlers", type=text, metavar="MODULE:ROUTER", help="The router with your handlers."),
    store_option,
)
names_argument = click.argument(
    "names", metavar="NAME...", nargs=-1, required=True, type=text, shell_complete=complete_handler
)


def all_rows(settings: Settings) -> list[HandlerRow]:
    """Return every handler in the code, and every other that the store knows, by name."""
    return _joined(read(settings, lambda reports: reports.handlers()), _registered_names(settings))


def chosen_rows(settings: Settings, words: Sequence[str], *, import_code: bool = False) -> list[HandlerRow]:
    """Return the handlers that these names and globs match; raise ConfigurationError for one without a match.

    By default this imports the code only if the store does not know every name, so that a pause takes effect fast.
    """
    reports = read(settings, lambda reports: reports.handlers())
    import_code |= not {report.name for report in reports}.issuperset(words)
    rows = _joined(reports, _registered_names(settings) if import_code else None)
    names = [row.name for row in rows]
    for word in words:
        if not any(_matches(name, word) for name in names):
            raise ConfigurationError(_no_match(word, names))
    return [row for row in rows if any(_matches(row.name, word) for word in words)]


def left_waiting(name: HandlerName, waiting: int) -> str:
    """Return the advice about waiting work of a handler that is not in the code."""
    items = f"{counted(waiting, 'waiting item')} {'stays' if waiting == 1 else 'stay'}"
    return (
        f"{escape_controls(name)} is not in the code: its {items} until it is back, or until "
        f"`receiver work-items bury --handler {quoted(name)} --reason TEXT`"
    )


def _registered_names(settings: Settings) -> Collection[HandlerName] | None:
    """Import the router and return the names of its handlers; None, with a note, if the import fails."""
    export_env_file()
    try:
        router = import_router(settings)
    except ConfigurationError as exc:
        note(f"receiver: {escape_controls(str(exc))}; only handlers that the store knows are used")
        return None
    return [handler.name for handler in router]


def _joined(reports: Sequence[HandlerReport], registered: Collection[HandlerName] | None) -> list[HandlerRow]:
    known = {report.name: report for report in reports}
    names = sorted({*known, *(registered or ())})
    return [
        HandlerRow(
            known.get(name) or HandlerReport(name, HandlerSwitch.ON, {}, None, None),
            None if registered is None else name in registered,
        )
        for name in names
    ]


def _matches(name: str, word: str) -> bool:
    return name == word or fnmatchcase(name, word)


def _no_match(word: str, names: Sequence[str]) -> str:
    if _MAGIC & set(word):
        return f"no handler matched {escape_controls(word)!r}; `receiver handlers list` lists all"
    ending = [name for name in names if name.endswith(f".{word}")]
    close = (ending or resembling(word, names))[:3]
    hint = did_you_mean(list(map(escape_controls, close))) or "."
    return f"unknown handler {escape_controls(word)!r}{hint} `receiver handlers list` lists all"


_NEXT_RUN = "next_run"
_STYLES = {HandlerSwitch.PAUSED: "yellow", HandlerSwitch.DISABLED: "dim"}
_REGISTERED: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}


@handlers.command("list")
@form_options(lambda: _COLUMNS)
@deployment_options
def list_(form: ListForm, **flags: str | None) -> None:
    """List the handlers of the code, and others in the store."""
    rows = all_rows(load_reading_settings(**flags))
    listing = _HANDLERS
    if not form.columns and not any(row.report.schedule for row in rows):  # most have none, and it is a wide column
        listing = replace(listing, columns=[one for one in _COLUMNS if one.title != _NEXT_RUN])
    listing.write_all(rows, form)
    if form.as_json:
        return
    for row in rows:
        if row.registered is False and row.waiting:
            note(left_waiting(row.name, row.waiting))
    if not rows:
        note("no handler is in the code or in the store")


def _count(state: WorkState) -> Callable[[HandlerRow], str]:
    return lambda row: str(row.report.counts.get(state, 0))


def _next_run(row: HandlerRow) -> str | None:
    """Return the next run and the schedule in one line; None without a schedule."""
    report = row.report
    return None if report.next_run is None else f"{local_time(report.next_run)}, {report.schedule}"


_COLUMNS: tuple[Column[HandlerRow], ...] = (
    Column("handler", lambda row: row.name, 40, 16, most=32, head=0),
    Column("status", lambda row: row.report.switch.value, 8, 6, most=8),
    Column("registered", lambda row: _REGISTERED[row.registered], 10, 10),
    Column("waiting", lambda row: str(row.waiting), 8, 7, most=9, right=True),
    Column("running", _count(WorkState.RUNNING), 7, 7, rank=3, right=True),
    Column("done", _count(WorkState.DONE), 9, 4, most=9, right=True),
    Column("dead", _count(WorkState.DEAD), 8, 4, most=8, right=True),
    Column("skipped", _count(WorkState.SKIPPED), 8, 7, rank=4, right=True),
    Column(
        "median",
        lambda row: NOTHING if row.report.latency is None else duration(row.report.latency),
        10,
        6,
        most=12,
        rank=2,
        right=True,
    ),
    Column(
        _NEXT_RUN,
        lambda row: _next_run(row) or NOTHING,
        56,
        56,
        most=70,
        rank=5,
        below=lambda row: (found := _next_run(row)) and f"next run {found}",
    ),
    Column(
        "last_error",
        lambda row: row.report.last_error or NOTHING,
        0,
        24,
        most=60,
        rank=1,
        below=lambda row: row.report.last_error,
    ),
)
_HANDLERS = Listing(
    "handler",
    _COLUMNS,
    lambda row: handler_row(row.report, registered=row.registered),
    lambda row: _STYLES.get(row.report.switch, ""),
)


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
            now = f"; {counted(row.waiting, 'item')} can run" if row.waiting else ""
            return f"{verb} on{now}{_stays_skipped(row)}"


def _stays_skipped(row: HandlerRow) -> str:
    skipped = row.report.counts.get(WorkState.SKIPPED, 0)
    if not skipped and row.report.switch is not HandlerSwitch.DISABLED:
        return ""
    items = counted(skipped, "skipped item") if skipped else "skipped items"
    return f"; `receiver work-items retry --handler {quoted(row.name)} --state skipped` runs {items}"


@handlers.command()
@names_argument
@deployment_options
def pause(names: Sequence[str], **flags: str | None) -> None:
    """Let the work of handlers wait until a resume.

    A NAME may be a glob. Work that runs now runs to its end. New work waits, and nothing is lost.
    """
    settings = load_settings(**flags)
    switch(settings, chosen_rows(settings, names), HandlerSwitch.PAUSED)


@handlers.command()
@names_argument
@deployment_options
def resume(names: Sequence[str], **flags: str | None) -> None:
    """Let handlers run again, with the work that waited.

    A NAME may be a glob.
    """
    settings = load_settings(**flags)
    switch(settings, chosen_rows(settings, names), HandlerSwitch.ON)


@handlers.command()
@names_argument
@plan_options
@deployment_options
def disable(names: Sequence[str], yes: bool, dry_run: bool, **flags: str | None) -> int:
    """Skip the waiting and new work of handlers.

    A NAME may be a glob. The command shows a plan first. Skipped work runs only after `receiver work-items retry`.
    """
    settings = load_settings(**flags)
    chosen = chosen_rows(settings, names, import_code=True)
    for line in _plan(chosen):
        say(line)
    if dry_run:
        return OK
    if not agreed(f"Disable {counted(len(chosen), 'handler')}?", yes=yes):
        return FAILED
    switch(settings, chosen, HandlerSwitch.DISABLED)
    return OK


def _plan(chosen: Sequence[HandlerRow]) -> Iterator[str]:
    total = sum(row.waiting for row in chosen)
    yield f"{counted(len(chosen), 'handler')} to disable, {counted(total, 'waiting item')} to skip"
    for row in chosen:
        yield f"    {row.waiting:>11,}  {escape_controls(row.name)}"
        if row.registered is False and row.waiting:
            yield "                 not in the code, so no worker skips these: bury them"


def import_router(settings: Settings) -> Router:
    """Import the router that the settings name, as `load_router` does. Note it if that takes longer than 5 seconds.

    What the code writes to standard output meanwhile goes to standard error: a program may read the output as JSON.
    """
    module = settings.handlers.partition(":")[0]

    def tell(where: str) -> None:
        place = f", which is at {where}" if where else ""
        note(f"receiver: still importing {module}{place}; Ctrl-C ends the command")

    with redirect_stdout(sys.stderr), watched_import(tell):
        return load_router(settings.handlers, folder=Path.cwd())
