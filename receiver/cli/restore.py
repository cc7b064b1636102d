"""`receiver restore`: put a backup in the place of the store."""

from pathlib import Path

import click

from receiver.cli.common.confirm import agreed, say, say_part
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import plan_options, store_option
from receiver.cli.common.progress import progress
from receiver.cli.common.store_files import contents_line, database_file
from receiver.core.clock import SystemClock, from_micros, local_time
from receiver.core.sizes import shown_size
from receiver.core.text import counted
from receiver.errors import StoreError, StoreRefused
from receiver.settings import load_settings
from receiver.stores.sqlite.backup import Contents, contents, newer_deliveries, require_free
from receiver.stores.sqlite.backup import restore as restore_store
from receiver.stores.sqlite.database import file_at
from receiver.stores.sqlite.write_ahead_log import log_path


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--discard", is_flag=True, help="Delete the present store instead of keeping it under another name.")
@plan_options
@store_option
def restore(file: Path, discard: bool, yes: bool, dry_run: bool, store: str | None) -> int:
    """Put the backup in FILE in the place of the store.

    The command shows a plan first, with the number of events that the backup does not have. It asks if there is a
    store. That one is kept under another name, unless --discard is given. While a server, a worker or
    another program has the store open, it refuses with exit code 3.
    """
    target = database_file(load_settings(store=store))
    held = contents(file)
    require_free(target, overwrite=True, source=file)
    say(f"restore {file} to {target}")
    say_part("backup", contents_line(held))
    replaced = _replaced(target)
    aside = None if discard or not replaced else _aside(target)
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
    """Describe the file that is there, by what can be said of a damaged one too. Return "" without one."""
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


def _aside(target: Path) -> Path:
    """Return the name under which the present store is kept."""
    return target.with_name(f"{target.name}-replaced-{SystemClock().now():%Y%m%dT%H%M%SZ}")
