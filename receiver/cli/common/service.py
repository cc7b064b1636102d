"""Calls of the service from the command line, their errors, and the job that a command names."""

import asyncio
import functools
import re
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from urllib.parse import urlsplit

import click

from receiver.cli.common.confirm import to_its_end
from receiver.cli.common.filters import text, together
from receiver.cli.common.output import note, progress
from receiver.cli.common.store import clock_of, configured_store, open_controls, open_reports, recording
from receiver.core.bulk import Imported
from receiver.core.ports.reports import Reports
from receiver.core.text import counted, escape_controls, plain_reason
from receiver.core.types import AppendOutcome, Origin
from receiver.errors import (
    AmbiguousJob,
    ReceiverError,
    ServerError,
    ServiceError,
    ServiceUnreachable,
    UnexpectedAnswer,
    UnknownJob,
)
from receiver.replay.backfill.comparing import Delivered, Missing, Spool, delivered, to_import
from receiver.service.samples import FAMILY_ALIASES
from receiver.settings import Settings
from receiver.signals.traces.switch import switch_on

if TYPE_CHECKING:  # it loads httpx
    from receiver.service.client import AsyncClient
    from receiver.service.client.calls import ServiceCall

T = TypeVar("T")
QUIET_SECONDS = 3.0
"""How long a call may take before a terminal shows that the command waits."""


@asynccontextmanager
async def open_client(settings: Settings) -> AsyncIterator["AsyncClient"]:
    """Open a client of the configured service. Raises NoApiKey if no key is set."""
    from receiver.service.client import AsyncClient

    if settings.traces:
        switch_on()
    async with AsyncClient(settings.plain_api_key(), settings.base_url) as client:
        yield client


def ask(settings: Settings, call: Callable[["AsyncClient"], Awaitable[T]], *, doubt: str | None = None) -> T:
    """Make one call of the service. A ReceiverError says what failed and what to do.

    `doubt` is noted for a failed call that the service may have carried out all the same.
    """
    try:
        return _ask(settings, call)
    except (KeyboardInterrupt, ReceiverError) as exc:
        if doubt is not None and (isinstance(exc, KeyboardInterrupt) or _may_be_done(exc)):
            note(doubt)
        raise


def _ask(settings: Settings, call: Callable[["AsyncClient"], Awaitable[T]]) -> T:
    from receiver.service.client.advice import advise

    async def run() -> T:
        async with open_client(settings) as client:

            def remind() -> None:
                if sys.stderr.isatty():
                    note(f"waiting for {urlsplit(settings.base_url).hostname}; Ctrl-C stops")

            waiting = asyncio.get_running_loop().call_later(QUIET_SECONDS, remind)
            try:
                return await call(client)
            finally:
                waiting.cancel()

    try:
        return asyncio.run(run())
    except ServiceError as exc:
        raise ReceiverError(escape_controls(advise(exc))) from exc


def _may_be_done(error: ReceiverError) -> bool:
    """Return whether the service may have carried out a call of `ask` that failed."""
    match error.__cause__:
        case ServiceUnreachable(sent=sent):
            return sent
        case UnexpectedAnswer(status=status):
            return status is None or status < 300
        case ServerError():
            return True
    return False


def build(make: Callable[..., T], /, **given: Any) -> T:
    """Return a request made from the values that are not None; raise UsageError if the service would refuse it."""
    from pydantic import ValidationError

    try:
        return make(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        reason = plain_reason(first)
        if first["type"] == "extra_forbidden":
            reason = _no_such_field(make, [str(part) for part in first["loc"]])
        raise click.UsageError(escape_controls(f"{place}: {reason}" if place else reason)) from None


def _no_such_field(model: Any, place: Sequence[str]) -> str:
    """Say that a field does not exist, and which one of the same object resembles it."""
    *path, name = place
    for part in path:
        inner = [field.annotation for field in model.model_fields.values() if field.alias == part]
        models = [one for one in (*inner, *get_args(inner and inner[0])) if hasattr(one, "model_fields")]
        if not models:
            return "there is no such field"
        model = models[0]
    known = [str(field.alias) for field in model.model_fields.values()]
    resembling = get_close_matches(name, known, n=1)
    return "there is no such field" + (f"; is it {resembling[0]}?" if resembling else "")


def as_it_came(call: "ServiceCall[Any]") -> "ServiceCall[Mapping[str, Any]]":
    """Return the call with the `data` of its answer as plain JSON, with fields that our models do not know."""

    def read(answer: Mapping[str, Any]) -> Mapping[str, Any]:
        found = answer.get("data")
        if not isinstance(found, Mapping):
            raise ValueError("no object in `data`")
        return found

    return replace(call, read=read)


def pairs(written: tuple[str, ...]) -> Mapping[str, str]:
    """Read NAME=VALUE arguments."""
    found = {}
    for one in written:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{escape_controls(one)!r} is not NAME=VALUE")
        found[name] = value
    return found


_HEX = re.compile(r"[0-9a-fA-F-]{1,35}")


def is_shortened(written: str) -> bool:
    """Return whether this can only be the beginning of an id of the service, which is a UUID."""
    if not _HEX.fullmatch(written):
        return False
    try:
        uuid.UUID(written)
    except ValueError:
        return True
    return False


def monitor_id(written: str) -> str:
    """Accept the id of a monitor. The store does not know monitors, so a shortened id is refused."""
    if is_shortened(text(written)):
        raise click.BadParameter(
            f"{escape_controls(written)!r} is shortened, and the service takes only the whole id of a monitor: "
            "`receiver monitors list` shows it"
        )
    return written


_FAMILIES = ("crawl", "batch_scrape", "extract", "agent")


class _Family(click.Choice[str]):
    """A family by its name in event types; `batch` is read as `batch_scrape`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(FAMILY_ALIASES.get(value, value), param, ctx)


family_option = click.option(
    "--family", type=_Family(_FAMILIES), help="The family of a job, if none of its events arrived."
)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The kind of a job without an event so far: its family, and for a check its monitor."""

    family: str | None
    monitor_id: str | None


def unknown_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--family` and `--monitor`, as one argument `unknown`."""

    @functools.wraps(command)
    def given(*args: Any, family: str | None, monitor: str | None, **kwargs: Any) -> Any:
        return command(*args, unknown=Unknown("monitor" if monitor else family, monitor), **kwargs)

    return together(
        family_option,
        click.option(
            "--monitor",
            type=monitor_id,
            metavar="ID",
            help="The monitor of a check, if none of its events arrived.",
        ),
    )(given)


async def resolve(reports: Reports, prefix: str, unknown: Unknown) -> str:
    """Return the one job whose id begins with the prefix. Without one, the prefix is the id if a family is given.

    Raises UnknownJob if there is no such job, or if that id is shortened: the service takes only whole ones.
    """
    try:
        return await reports.resolve_job(prefix)
    except AmbiguousJob:
        raise
    except UnknownJob as exc:
        if unknown.family is not None:
            return whole_job_id(prefix)
        raise UnknownJob(f"{exc}; if none of its events arrived, add --family or --monitor") from exc


async def arrived(settings: Settings, prefix: str, unknown: Unknown, *, partly: bool) -> Delivered:
    """Return what has arrived of the one job whose id begins with the prefix; `partly` skips what was pruned.

    Without a store nothing has arrived.
    """
    if configured_store(settings).exists():
        async with open_reports(settings) as reports:
            return await delivered(reports, await resolve(reports, prefix, unknown), partly=partly)
    if unknown.family is None:
        raise UnknownJob(f"there is no store, so add --family or --monitor for job {prefix}")
    return Delivered(whole_job_id(prefix))


def whole_job_id(job_id: str) -> str:
    """Return the id of a job that the store does not know; raise UnknownJob if it is shortened."""
    if is_shortened(job_id):
        raise UnknownJob(f"none of the events of job {job_id} arrived, so the service needs its whole id")
    return job_id


def events_of(client: "AsyncClient", found: Delivered, unknown: Unknown) -> AsyncIterator[dict[str, Any]]:
    """Return the events that a job produced, made from the service's answers."""
    from receiver.replay.backfill.production import Asked, produced

    family = found.family or unknown.family or ""
    return produced(client, Asked(found.job_id, family, found.monitor_id or unknown.monitor_id))


async def import_missing(
    settings: Settings,
    lacking: Sequence[Missing],
    spool: Spool,
    *,
    verb: str,
    about: str,
    done: str,
    origin: Origin,
) -> Counter[str]:
    """Store the missing events of jobs; return how many by job. A stop lets the current batch finish."""
    imported: Counter[str] = Counter()
    count, store = sum(one.count for one in lacking), configured_store(settings)

    async def step(job_id: str, part: Sequence[Imported]) -> None:
        new = list(await controls.import_deliveries(part)).count(AppendOutcome.ACCEPTED)
        imported[job_id] += new
        await recorded.add(seen=len(part), changed=new)

    try:
        async with (
            open_controls(settings, create=True) as controls,
            open_reports(settings) as reports,
            clock_of(store) as clock,
            recording(controls, store, verb, about, planned=count) as recorded,
        ):
            with progress(done, count) as advance:
                for one in lacking:
                    async for part in to_import(one, spool, reports, clock, origin=origin):
                        await to_its_end(step(one.job_id, part))
                        advance(len(part))
    except BaseException:
        note(
            f"stopped: {imported.total():,} of {counted(count, 'event')} {done}; "
            "the same command continues with the rest"
        )
        raise
    return imported
