"""The handlers that a command is about: those of the store joined with those of the code."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import click

from receiver.cli.common.filter_options import store_option, text
from receiver.cli.common.handler_code import import_router
from receiver.cli.common.names import complete_handler
from receiver.cli.common.output import note, quoted
from receiver.cli.common.store import read
from receiver.core.text import counted, did_you_mean, escape_controls, resembling
from receiver.core.types import HandlerName, HandlerSwitch
from receiver.core.views import waiting_items
from receiver.core.work import HandlerReport
from receiver.errors import ConfigurationError
from receiver.settings import Settings, export_env_file

_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class HandlerRow:
    """A handler with its figures from the store. `registered` is None when the code could not be imported."""

    report: HandlerReport
    registered: bool | None

    @property
    def name(self) -> HandlerName:
        """Return its name."""
        return self.report.name

    @property
    def waiting(self) -> int:
        """Return how many of its work items have not started."""
        return waiting_items(self.report)


def deployment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the handlers and the store."""
    option = click.option("--handlers", type=text, metavar="MODULE:ROUTER", help="The router with your handlers.")
    return option(store_option(command))


def names_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the names or globs of handlers as the argument `names`."""
    return click.argument(
        "names", metavar="NAME...", nargs=-1, required=True, type=text, shell_complete=complete_handler
    )(command)


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
