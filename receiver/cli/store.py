"""`receiver store`: make or migrate a store, or move to another kind of store."""

import asyncio

import click

from receiver.cli.common.confirm import agreed, say, say_part
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import plan_options, store_option
from receiver.cli.common.lazy_group import CommandGroup
from receiver.cli.common.output import note, progress
from receiver.core.addresses import is_postgres, shown_address
from receiver.core.text import counted
from receiver.core.units import shown_size
from receiver.settings import load_settings
from receiver.stores import open_store
from receiver.stores.copying import open_copy, source_sizes
from receiver.stores.sql.connection import errors_of
from receiver.stores.sql.copying import TARGET, CopySizes, StoreCopy


@click.group(cls=CommandGroup)
def store() -> None:
    """Make or migrate a store, or move to another kind of store."""


@store.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@plan_options
def copy(source: str, target: str, yes: bool, dry_run: bool) -> int:
    """Copy the store at FROM into the one at TO, as to PostgreSQL.

    TO has to be empty, or an earlier, unused copy of FROM. The plan says how many events of such a copy are removed
    because FROM no longer has them.

    Programs may use FROM meanwhile; start none on TO before it is complete. The copy has the deliveries with their
    numbers and exact bytes, work items, attempts, quarantine, switches, schedules, once keys and recorded actions.
    Workers build the search index again. The counts of attempts per minute, which the console draws, start at zero,
    and workers appear when they start.

    At the end the command compares both stores. The exit code is 0 if they are equal. It is 1 if FROM has changed
    meanwhile: stop its programs, and run the same command again, which copies only what changed. The same command
    also continues a stopped copy.
    """
    return asyncio.run(_copy(source, target, yes=yes, dry_run=dry_run))


async def _copy(source: str, target: str, *, yes: bool, dry_run: bool) -> int:
    say(f"copy {shown_address(source)} to {shown_address(target)}")
    with errors_of(TARGET):
        is_new = not open_store(target).exists()
    if is_new:  # it is made only after the question
        new = "has no tables of ours yet; they" if is_postgres(target) else "does not exist yet and"
        say_part("from", _line(await source_sizes(source)))
        say_part("to", f"{shown_address(target)} {new} will be made")
        if dry_run:
            return OK
        if not agreed("Copy?", yes=yes):
            return FAILED
    async with open_copy(source, target, create=not dry_run) as (reading, writing):
        plan = StoreCopy(reading, writing)
        with progress("events compared", None) as advance:
            removed = await StoreCopy(reading, writing, advance=advance).removals()
        held, known = await plan.sizes()
        if not is_new:
            say_part("from", _line(held))
            say_part("to", _line(known))
            if removed:
                say_part("removes", f"{counted(removed, 'event')} of TO that FROM no longer has")
            if dry_run:
                return OK
            if not agreed("Copy?", yes=yes):
                return FAILED
        try:
            with progress("rows copied", None) as advance:
                await StoreCopy(reading, writing, advance=advance).run()
            with progress("rows compared", None) as advance:
                differing = await StoreCopy(reading, writing, advance=advance).differences()
        except BaseException:
            note("stopped: the same command continues with the rest")
            raise
        held, known = await plan.sizes()
    return _report(differing, held, known)


def _report(differing: int, held: CopySizes, known: CopySizes) -> int:
    if differing or held != known:
        say(f"copied {_line(known)}")
        say(
            f"{counted(differing, 'row')} of FROM changed meanwhile: stop the programs that use it, and run the "
            "same command again"
        )
        return FAILED
    say(f"both stores are equal: {_line(known)}")
    return OK


def _line(sizes: CopySizes) -> str:
    return (
        f"{counted(sizes.deliveries, 'event')} with {shown_size(sizes.bytes)} of bodies, "
        f"{counted(sizes.work_items, 'work item')}, {sizes.quarantined:,} in quarantine"
    )


@store.command()
@store_option
def migrate(store: str | None) -> int:
    """Make the store, or migrate one of an older version.

    `receiver serve` and `receiver work` do the same when they start. Use this command if their database user may
    not create tables.
    """
    settings = load_settings(store=store)
    opened = open_store(settings.store)
    before = opened.schema() if opened.exists() else None

    async def make() -> None:
        async with open_store(settings.store).log():
            pass

    asyncio.run(make())
    after = opened.schema()
    version = after.stored if after else 0
    if before == after:
        say(f"{settings.shown_store()} has schema {version}, which this version needs")
    elif before is None:
        say(f"made {settings.shown_store()} with schema {version}")
    else:
        say(f"migrated {settings.shown_store()} from schema {before.stored} to {version}")
    return OK
