"""Imports the router that the settings name."""

import importlib
import sys
from pathlib import Path

from receiver.errors import ConfigurationError, HandlerError
from receiver.routing import Router


def load_router(name: str, *, folder: Path) -> Router:
    """Import `module:attribute`, looking in `folder` first, and return the router there, checked as a whole.

    Raises HandlerError for a wrong name or router, and for an error in the module: that error is the cause, and its
    traceback shows the place.
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
        raise HandlerError(f"{module_name} does not import: {exc}") from exc
    except ConfigurationError:
        raise
    except BaseException as exc:  # a module may even call sys.exit()
        if isinstance(exc, KeyboardInterrupt):
            raise
        raise HandlerError(
            f"{module_name} does not import: {type(exc).__name__}: {' '.join(str(exc).split())}"
        ) from exc
    router = getattr(module, attribute, None)
    if not isinstance(router, Router):
        what = "nothing" if router is None else f"a {type(router).__name__}"
        raise HandlerError(f"{module_name} has {what} named {attribute!r}; a Router is expected there")
    router.check()
    return router
