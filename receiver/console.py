"""Assembles the console: settings, the store and the pages."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any

from pydantic import SecretStr
from starlette.types import Receive, Scope, Send

from receiver.core.clock import Clock, SystemClock
from receiver.core.ports.store import Store
from receiver.core.signing import sign
from receiver.replay.backfill.asking import AskService
from receiver.settings import PREFIX, Settings, as_variables, load_settings
from receiver.stores import open_store
from receiver.web.console.app import ConsoleApp
from receiver.web.console.parts import CheckedPart, ConsoleOptions, ShownSetting
from receiver.web.console.store import StoreClock

_CHECK_SECONDS = 60.0
Check = Callable[[], Awaitable[Sequence[CheckedPart]]]
_HIDDEN = "set, not shown"
_PASSWORD_IN_URL = re.compile(r"(://)[^/?#\s]*@")


class Console:
    """The console as an ASGI app: run it with `receiver console`, or mount it behind your own login.

    A mounted app's own lifespan is not run: pass `console.lifespan` to the outer app. The console answers only to
    loopback host names and those in CONSOLE_NAMES. Raises ConfigurationError for settings that are wrong. `by_flag`
    names the settings that come from flags of a command, for the page of settings.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        by_flag: Collection[str] = (),
    ) -> None:
        self.settings = settings or load_settings()
        opened = store or open_store(self.settings.store)
        self._clock = StoreClock(opened, SystemClock()) if clock is None else None
        used = clock or self._clock or SystemClock()
        self._app = ConsoleApp(opened, used, _options(self.settings, used, by_flag))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
        else:
            await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """End streams and actions, and close the store, at the end of the block. `app` is the outer app."""
        following = nullcontext() if self._clock is None else self._clock.following()
        async with following, self._app.lifespan(app):
            yield

    def end_streams(self) -> None:
        """End the open streams of changes, without which a server cannot stop."""
        self._app.parts.changes.end()

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _options(settings: Settings, clock: Clock, by_flag: Collection[str]) -> ConsoleOptions:
    secrets = settings.plain_secrets()
    has_key = settings.api_key is not None
    return ConsoleOptions(
        password=settings.plain_console_password(),
        names=(*settings.console_names, settings.console_host),
        read_only=settings.console_read_only,
        version=version("crawl-receiver"),
        settings=shown_settings(settings, by_flag),
        webhook_url=f"http://{settings.host}:{settings.port}{settings.path}",
        check=_one_at_a_time(lambda: check_deployment(settings)),
        results=AskService(settings.plain_api_key(), settings.base_url, clock) if has_key else None,
        sign=(lambda body: {settings.signature_header: sign(body, secrets[0])}) if secrets else None,
        limits=settings.attention_limits(),
    )


def _one_at_a_time(check: Check) -> Check:
    """Return a check that runs once at a time: each imports all handlers in a process of its own."""
    turn = asyncio.Lock()

    async def checked() -> Sequence[CheckedPart]:
        async with turn:
            return await check()

    return checked


async def check_deployment(settings: Settings) -> Sequence[CheckedPart]:
    """Return what `receiver check` reports for these settings, from its own process, as it imports the handlers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "receiver", "check", "--json"),
        env={**os.environ, **as_variables(settings)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        return [
            CheckedPart(
                "check", False, f"it took more than {_CHECK_SECONDS:.0f} seconds; a handler's import blocks"
            )
        ]
    finally:  # also when the console stops
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        rows = [json.loads(line) for line in output.splitlines()]
        return [CheckedPart(str(row["part"]), bool(row["ok"]), str(row["text"])) for row in rows] or [
            CheckedPart("check", False, errors.decode("utf-8", "replace").strip())
        ]
    except (ValueError, KeyError, TypeError):
        return [CheckedPart("check", False, "its answer could not be read; run `receiver check`")]


def shown_settings(settings: Settings, by_flag: Collection[str] = ()) -> Sequence[ShownSetting]:
    """Return every setting with its value, unless it is a secret, and the source of the value."""
    return [
        ShownSetting(
            f"{PREFIX}{name.upper()}",
            settings.shown_store() if name == "store" else _shown(getattr(settings, name)),
            "flag" if name in by_flag else _source(settings, name),
            field.description or "",
        )
        for name, field in type(settings).model_fields.items()
    ]


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, SecretStr) or (isinstance(value, tuple) and isinstance(value[0], SecretStr)):
        return _HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return _PASSWORD_IN_URL.sub(r"\1***@", str(value))


def _source(settings: Settings, name: str) -> str:
    if name not in settings.model_fields_set:
        return "default"
    variables = {variable.upper() for variable in os.environ}
    return "environment" if f"{PREFIX}{name.upper()}" in variables else ".env, platform or program"
