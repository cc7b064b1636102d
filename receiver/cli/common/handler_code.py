"""The import of the handlers, for commands that write results to standard output."""

import sys
from contextlib import redirect_stdout
from pathlib import Path

from receiver.cli.common.output import note
from receiver.routing import Router
from receiver.routing.loader import load_router, watched_import
from receiver.settings import Settings


def import_router(settings: Settings) -> Router:
    """Import the router that the settings name, as `load_router` does. Note it if that takes longer than 5 seconds.

    What the code writes to standard output meanwhile goes to standard error: a program may read the output as JSON.
    """
    module = settings.handlers.partition(":")[0]

    def tell(where: str) -> None:
        place = f", which is at {where}" if where else ""
        note(f"receiver: still importing {module}{place}; Ctrl-C ends the command")

    with redirect_stdout(sys.stderr), watched_import(tell):
        return load_router(settings.handlers, folder=Path.cwd())
