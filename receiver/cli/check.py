"""`receiver check` tests whether this deployment would work."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import click

from receiver.cli.common.exit_codes import OK, exit_code
from receiver.cli.common.setting_flags import listening_flags, running_flags
from receiver.cli.handlers.rows import left_waiting
from receiver.core.clock import SystemClock
from receiver.core.text import counted
from receiver.errors import ConfigurationError, ReceiverError
from receiver.routing.loader import load_router
from receiver.settings import PREFIX, Settings, export_env_file, load_settings
from receiver.stores import open_store


@click.command()
@running_flags
@listening_flags
def check(**flags: object) -> int:
    """Check the settings, the store, search and the handlers.

    Handlers are imported and none is run. A store that is there is made ready for this version, as `receiver
    serve` does, and a write to it is tried; one that is not there is not created. Exit code 0 when all is well,
    2 for settings or handlers, 3 for the store.
    """
    settings = load_settings(**flags)
    click.echo("settings  read without errors")
    codes = [
        _told("security", lambda: _check_security(settings)),
        _told("metrics", lambda: _check_metrics(settings)),
        _told("store", lambda: asyncio.run(_check_store(settings))),
        _told("search", lambda: asyncio.run(_check_search(settings))),
        _told("handlers", lambda: _check_handlers(settings)),
    ]
    if max(codes) == OK:
        for words in asyncio.run(_left_waiting(settings)):
            click.echo(f"note      {words}")
    if codes[2] == OK:
        for words in asyncio.run(open_store(settings.store).health_notes()):
            click.echo(f"note      {words}")
    return max(codes)


def _told(part: str, check_part: Callable[[], str]) -> int:
    """Print the result of one check and return its exit code."""
    try:
        click.echo(f"{part:<9} {check_part()}")
    except ReceiverError as exc:
        click.echo(f"{part:<9} WRONG: {exc}")
        return exit_code(exc)
    return OK


def _check_security(settings: Settings) -> str:
    settings.require_authentication()
    if not settings.authenticated:
        return f"every delivery is accepted, from anybody, as {PREFIX}ALLOW_UNSIGNED says; set {PREFIX}SECRETS"
    return f"{len(settings.secrets)} secret(s) and {len(settings.tokens)} token(s) are accepted"


def _check_metrics(settings: Settings) -> str:
    if not settings.metrics:
        return f"are off; {PREFIX}METRICS=true serves them to Prometheus"
    settings.require_safe_metrics()
    who = "whoever sends the token" if settings.metrics_token else "this machine only; behind a proxy set a token"
    return f"at /metrics of the endpoint, and of a worker on port {settings.metrics_port}, for {who}"


async def _check_store(settings: Settings) -> str:
    store = open_store(settings.store)
    if not store.exists():
        return f"{settings.store} is not there yet; `receiver serve` creates it"
    async with store.log() as log, store.reports() as reports:
        await log.probe(SystemClock().now())
        return f"{settings.store} can be written; {await reports.count_unfinished()} deliveries are not finished"


async def _check_search(settings: Settings) -> str:
    if not settings.search:
        return f"is off; {PREFIX}SEARCH=true has a worker keep an index for `events list --text`"
    store = open_store(settings.store)
    await store.require_search()
    reach = None
    if store.exists():
        async with store.reports() as reports:
            reach = await reports.search_reach()
    if reach is None:
        return "is on; a worker makes the index"
    if reach.behind:
        return f"is on; the index has still to take in {counted(reach.behind, 'delivery')}"
    return "is on; the index has everything"


def _check_handlers(settings: Settings) -> str:
    export_env_file()  # as a worker does
    router = load_router(settings.handlers, folder=Path.cwd())
    if not len(router):
        raise ConfigurationError(f"{settings.handlers} has no handlers; register some with @router.on(...)")
    return f"{settings.handlers} has {len(router)}: {', '.join(handler.name for handler in router)}"


async def _left_waiting(settings: Settings) -> list[str]:
    """Return advice for work that waits for handlers which are no longer in the code."""
    store = open_store(settings.store)
    if not store.exists():
        return []
    names = {handler.name for handler in load_router(settings.handlers, folder=Path.cwd())}
    async with store.reports() as reports:
        waiting = await reports.waiting()
    return [left_waiting(name, waiting[name]) for name in sorted(waiting.keys() - names)]
