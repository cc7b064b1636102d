"""Calls of the service from the command line, and the messages for calls that fail."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from urllib.parse import urlsplit

import click

from receiver.cli.common.output import note
from receiver.core.refusals import plain_reason
from receiver.core.text import escape_controls
from receiver.errors import ReceiverError, ServerError, ServiceError, ServiceUnreachable, UnexpectedAnswer
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
            remark = f"waiting for {urlsplit(settings.base_url).hostname}; Ctrl-C stops"
            telling = asyncio.get_running_loop().call_later(QUIET_SECONDS, _note_on_terminal, remark)
            try:
                return await call(client)
            finally:
                telling.cancel()

    try:
        return asyncio.run(run())
    except ServiceError as exc:
        raise ReceiverError(escape_controls(advise(exc))) from exc


def _note_on_terminal(remark: str) -> None:
    if sys.stderr.isatty():
        note(remark)


def _may_be_done(error: ReceiverError) -> bool:
    """Tell whether the service may have carried out a call of `ask` that failed."""
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
