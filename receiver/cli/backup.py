"""`receiver backup` and `receiver restore`: a copy of the store, and the way back."""

from pathlib import Path

import click

from receiver.cli.common.confirm import agreed, say, say_part
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filters import plan_options, store_option
from receiver.cli.common.output import progress
from receiver.core.clock import SystemClock, from_micros, local_time
from receiver.core.text import counted
from receiver.core.units import shown_size
from receiver.errors import ConfigurationError, StoreError, StoreRefused
from receiver.settings import Settings, load_reading_settings, load_settings
from receiver.stores.sqlite.backup import Contents, back_up, contents, newer_deliveries, require_free
from receiver.stores.sqlite.backup import restore as restore_store
from receiver.stores.sqlite.database import file_at
from receiver.stores.sqlite.files import database_path
from receiver.stores.sqlite.write_ahead_log import log_path, real_path


def database_file(settings: Settings) -> Path:
    """Return the file of the configured store, not a link to it.

    Raises ConfigurationError if it is not a SQLite store.
    """
    if not settings.store.startswith("sqlite:"):
        raise ConfigurationError(
            "backup and restore are for SQLite stores; use the tools of your database, such as pg_dump"
        )
    return real_path(database_path(settings.store))


def contents_line(held: Contents) -> str:
    """Return how many events there are, when the last arrived, the size of the file, and its schema."""
    last = f", the last arrived {local_time(held.last_at)}" if held.last_at else ""
    return f"{counted(held.deliveries, 'event')}{last}, {shown_size(held.size)}, schema {held.schema}"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@store_option
def backup(file: Path, force: bool, store: str | None) -> int:
    """Copy the store into FILE, also beside a running server.

    The copy has the state of one point in time. FILE appears when the copy is complete and checked. Exit code 2 if
    FILE is there already, 3 if the store or the copy is damaged or cannot be written.
    """
    source = database_file(load_reading_settings(store=store))
    with progress("pages copied", None) as advance:
        copied = back_up(source, file, overwrite=force, advance=advance)
    say(f"wrote {file}: {contents_line(copied)}")
    return OK


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--discard", is_flag=True, help="Delete the present store instead of keeping it under another name.")
@plan_options
@store_option
def restore(file: Path, discard: bool, yes: bool, dry_run: bool, store: str | None) -> int:
    """Put the backup in FILE in the place of the store.

    The command shows a plan first, with the number of events that the backup does not have, and asks if there is a
    store. The present store is kept under another name, unless --discard is given. While a server, a worker or
    another program has the store open, the command refuses with exit code 3.
    """
    target = database_file(load_settings(store=store))
    held = contents(file)
    require_free(target, overwrite=True, source=file)
    say(f"restore {file} to {target}")
    say_part("backup", contents_line(held))
    replaced = _replaced(target)
    aside = None
    if replaced and not discard:
        aside = target.with_name(f"{target.name}-replaced-{SystemClock().now():%Y%m%dT%H%M%SZ}")
    if replaced:
        say_part("replaces", replaced)
        say_part("", _newer(target, held))
        if aside:
            say_part("keeps it", f"as {aside}")
        else:
            say("  deletes it")
    if dry_run:
        return OK
    if replaced and not agreed(f"Replace {target}?", yes=yes):
        return FAILED
    with progress("pages copied", None) as advance:
        restore_store(file, target, overwrite=bool(replaced), aside=aside, advance=advance)
    say(f"restored {target}" + (f"; the one before is {aside}" if aside else ""))
    return OK


def _replaced(target: Path) -> str:
    """Describe the file that is there, which may be damaged. Return "" without one."""
    for path, kind in ((target, "a database"), (log_path(target), "a log without a database")):
        if there := file_at(path):
            changed = local_time(from_micros(there.st_mtime_ns // 1_000))
            return f"{kind} of {shown_size(there.st_size)}, last changed {changed}"
    return ""


def _newer(target: Path, backup: Contents) -> str:
    """Say how many events of the present store the backup cannot have."""
    if file_at(target) is None:
        return "it may have events that the backup does not have"
    try:
        count = newer_deliveries(target, backup.last_at)
    except (StoreError, StoreRefused):
        return "it cannot be read, so it may have newer events than the backup"
    return f"{counted(count, 'event')} in it arrived after the last one of the backup"
