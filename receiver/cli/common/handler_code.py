"""The import of the handlers, for commands that write results to standard output."""

import sys
from contextlib import redirect_stdout
from pathlib import Path

from receiver.routing import Router
from receiver.routing.loader import load_router
from receiver.settings import Settings


def import_router(settings: Settings) -> Router:
    """Import the router that the settings name, as `load_router` does.

    What the code writes to standard output meanwhile goes to standard error: a program may read the output as JSON.
    """
    with redirect_stdout(sys.stderr):
        return load_router(settings.handlers, folder=Path.cwd())
