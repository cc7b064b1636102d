"""`receiver store migrate`: make the tables, or bring them to this version."""

import asyncio

import click

from receiver.cli.common.confirm import say
from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filter_options import store_option
from receiver.settings import load_settings
from receiver.stores import open_store


@click.command()
@store_option
def migrate(store: str | None) -> int:
    """Make the store, or migrate one of an older version.

    `receiver serve` and `receiver work` do the same when they start. This command is for a user of the database who
    may create tables, where the user of the other programs may not.
    """
    settings = load_settings(store=store)
    opened = open_store(settings.store)
    before = opened.schema() if opened.exists() else None
    asyncio.run(_make(settings.store))
    after = opened.schema()
    version = after.stored if after else 0
    if before == after:
        say(f"{settings.shown_store()} has schema {version}, which this version needs")
    elif before is None:
        say(f"made {settings.shown_store()} with schema {version}")
    else:
        say(f"migrated {settings.shown_store()} from schema {before.stored} to {version}")
    return OK


async def _make(url: str) -> None:
    async with open_store(url).log():
        pass
