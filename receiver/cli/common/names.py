"""Names of event types and handlers: suggestions for a glob that matches nothing, and completion in a shell."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import click
from click.shell_completion import CompletionItem

from receiver.cli.common.store import configured_store, read
from receiver.core.deliveries import DeliveryFilter
from receiver.core.jobs import JobFilter, family_of
from receiver.core.ports.reports import Reports
from receiver.core.text import did_you_mean, escape_controls, resembling
from receiver.core.types import glob_list
from receiver.core.work import WorkFilter
from receiver.errors import ReceiverError
from receiver.service.samples import FAMILY_ALIASES
from receiver.settings import load_reading_settings

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
    """Return known names that resemble a glob; none if it matches one, as then others than it matched nothing."""
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
    """Complete the name of a handler that the configured store knows; nothing if it cannot be read."""
    try:
        settings = load_reading_settings()
        if not configured_store(settings).exists():
            return []
        return completed(read(settings, lambda reports: reports.handler_names()), incomplete)
    except ReceiverError:
        return []


def completed(names: Iterable[str], incomplete: str, before: str = "") -> list[CompletionItem]:
    """Return the names that begin like the word at the prompt; `before` is what stands before it there."""
    return [CompletionItem(before + name) for name in names if name.startswith(incomplete)]
