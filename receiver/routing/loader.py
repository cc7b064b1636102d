"""Imports the router that the settings name, and reports an import that takes long."""

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from receiver.errors import ConfigurationError, HandlerError
from receiver.routing import Router
from receiver.runtime.tracebacks import error_line, place_in, with_place


def load_router(name: str, *, folder: Path) -> Router:
    """Import `module:attribute`, looking in `folder` first, and return that router, checked as a whole.

    Raises HandlerError for a wrong name or router, and for an error in the module, which is its cause; the text
    names file and line.
    """
    module_name, colon, attribute = name.partition(":")
    if not (all(part.isidentifier() for part in module_name.split(".")) and colon and attribute):
        raise HandlerError(f"RECEIVER_HANDLERS={name!r}: write module:router, as in handlers:router")
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        if exc.name and (module_name == exc.name or module_name.startswith(exc.name + ".")):
            raise HandlerError(
                f"there is no module {module_name!r} in {folder}; `receiver new` makes one"
            ) from None
        raise _not_imported(module_name, exc) from exc
    except BaseException as exc:  # a module may even call sys.exit()
        if isinstance(exc, KeyboardInterrupt):
            raise
        raise _not_imported(module_name, exc) from exc
    router = getattr(module, attribute, None)
    if not isinstance(router, Router):
        what = f"{module_name}.{attribute} is of type {type(router).__name__}"
        if router is None:
            what = f"{module_name} has nothing named {attribute!r}"
        raise HandlerError(f"{what}; a Router is expected there")
    router.check()
    return router


def _not_imported(module: str, error: BaseException) -> HandlerError:
    if isinstance(error, ConfigurationError):  # of the registration: it names the handler
        return HandlerError(with_place(str(error), error))
    text = str(error) if isinstance(error, ModuleNotFoundError) else error_line(error)
    return HandlerError(with_place(f"{module} does not import: {text}", error))


PATIENCE = timedelta(seconds=5)
"""Large libraries take some seconds to import; after that, people want to know why they wait."""


@contextmanager
def watched_import(tell: Callable[[str], object], *, patience: timedelta = PATIENCE) -> Iterator[None]:
    """Call `tell` once if the block, which imports the user's code, runs longer than `patience`; do not end it.

    `tell` gets the file and line that the import has reached, as in `handlers.py:14`, or an empty text outside of
    the user's code. It is called in another thread, which ends before the block does. It is not called while C code
    lets no other thread run.
    """
    importing = threading.get_ident()

    def look() -> None:
        tell(place_in(sys._current_frames().get(importing)))

    timer = threading.Timer(patience.total_seconds(), look)
    timer.daemon = True  # a `tell` that does not return must not keep the process alive
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
