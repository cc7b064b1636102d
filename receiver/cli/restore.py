"""`receiver restore`: put a backup in the place of the store."""

from pathlib import Path

import click

from receiver.cli.common.confirm import agreed, say
from receiver.cli.common.delivery_plans import size
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.filter_options import plan_options, store_option
from receiver.cli.common.progress import progress
from receiver.cli.common.store_files import contents_line, database_file
from receiver.core.clock import from_micros, local_time
from receiver.settings import load_settings
from receiver.stores.sqlite.backup import contents, require_free
from receiver.stores.sqlite.backup import restore as restore_store
from receiver.stores.sqlite.database import file_at
from receiver.stores.sqlite.write_ahead_log import log_path


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@plan_options
@store_option
def restore(file: Path, yes: bool, dry_run: bool, store: str | None) -> int:
    """Put the backup in FILE in the place of the store.

    The command shows a plan first. It asks if there is a store, which is then replaced together with its log. While
    a server, a worker or another program has the store open, it refuses with exit code 3.
    """
    target = database_file(load_settings(store=store))
    held = contents(file)
    require_free(target, overwrite=True, source=file)
    say(f"restore {file} to {target}")
    say(f"  backup    {contents_line(held)}")
    replaced = _replaced(target)
    if replaced:
        say(f"  replaces  {replaced}")
    if dry_run:
        return OK
    if replaced and not agreed(f"Replace {target}?", yes=yes):
        return FAILED
    with progress("pages copied", None) as advance:
        restore_store(file, target, overwrite=bool(replaced), advance=advance)
    say(f"restored {target}")
    return OK


def _replaced(target: Path) -> str:
    """Describe the file that is there, by what can be said of a damaged one too. Return "" without one."""
    for path, kind in ((target, "a database"), (log_path(target), "a log without a database")):
        if there := file_at(path):
            changed = local_time(from_micros(there.st_mtime_ns // 1_000))
            return f"{kind} of {size(there.st_size)}, last changed {changed}"
    return ""
