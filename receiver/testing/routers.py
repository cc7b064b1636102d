"""The check that a tool for tests was given a router."""

from types import ModuleType

from receiver.errors import HandlerError
from receiver.routing import Router


def require_router(given: object) -> None:
    """Raise HandlerError, with what to write instead, unless this is a Router."""
    if isinstance(given, Router):
        return
    if not isinstance(given, ModuleType):
        raise HandlerError(f"a Router is expected, not {type(given).__name__}")
    found = [name for name, value in vars(given).items() if isinstance(value, Router)]
    hint = f": write {given.__name__}.{found[0]}" if found else ", which has none"
    raise HandlerError(f"a Router is expected, not the module {given.__name__}{hint}")
