"""`receiver check`: would this deployment work?"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import click

from receiver.cli.flags import listening_flags, running_flags
from receiver.cli.main import OK, exit_code
from receiver.clock import SystemClock
from receiver.errors import ConfigurationError, ReceiverError
from receiver.loader import load_router
from receiver.settings import PREFIX, Settings, load_settings
from receiver.stores import open_store


@click.command()
@running_flags
@listening_flags
def check(**flags: object) -> int:
    """Say in words what would not work.

    Looks at settings, store and handlers.

    Nothing is created and no handler is run. Exit code 0 when all is well, 2 for settings or handlers, 3 for
    the store.
    """
    settings = load_settings(**flags)
    click.echo("settings  read without errors")
    codes = [
        _told("security", lambda: _check_security(settings)),
        _told("store", lambda: asyncio.run(_check_store(settings))),
        _told("handlers", lambda: _check_handlers(settings)),
    ]
    return max(codes)


def _told(part: str, check_part: Callable[[], str]) -> int:
    """Say how one check went and return its exit code."""
    try:
        click.echo(f"{part:<9} {check_part()}")
    except ReceiverError as exc:
        click.echo(f"{part:<9} WRONG: {exc}")
        return exit_code(exc)
    return OK


def _check_security(settings: Settings) -> str:
    settings.require_safe_address()
    if not settings.authenticated:
        return f"every delivery is accepted, from anyone who reaches {settings.host}; set {PREFIX}SECRETS"
    return f"{len(settings.secrets)} secret(s) and {len(settings.tokens)} token(s) are accepted"


async def _check_store(settings: Settings) -> str:
    store = open_store(settings.store)
    if not store.exists():
        return f"{settings.store} is not there yet; `receiver serve` creates it"
    async with store.log() as log, store.reports() as reports:
        await log.probe(SystemClock().now())
        return f"{settings.store} can be written; {await reports.unfinished()} deliveries are not finished"


def _check_handlers(settings: Settings) -> str:
    router = load_router(settings.handlers, folder=Path.cwd())
    if not len(router):
        raise ConfigurationError(f"{settings.handlers} has no handlers; register some with @router.on(...)")
    return f"{settings.handlers} has {len(router)}: {', '.join(handler.name for handler in router)}"
