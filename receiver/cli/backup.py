"""`receiver backup`: a copy of the store."""

from pathlib import Path

import click

from receiver.cli.common.confirm import say
from receiver.cli.common.exit_codes import OK
from receiver.cli.common.filter_options import store_option
from receiver.cli.common.progress import progress
from receiver.cli.common.store_files import contents_line, database_file
from receiver.settings import load_reading_settings
from receiver.stores.sqlite.backup import back_up


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
