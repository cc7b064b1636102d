"""Facts about a function: its parameters, its annotations, and whether it is async."""

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import receiver.events as events
from receiver.errors import HandlerError
from receiver.routing.context import BatchContext, Context
from receiver.runtime.tracebacks import short_path

Needs = tuple[tuple[str, Any], ...]
"""Names of parameters, and their annotations."""

_VAGUE: tuple[object, ...] = (inspect.Parameter.empty, Any, object)
_OURS = {one.__name__: one for one in (Context, BatchContext)} | {
    name: getattr(events, name) for name in events.__all__
}
"""Names that an annotation may use even if its module imports them for the type checker only."""


def place_of(function: object) -> str:
    """Return `file:line: ` of a function's definition, from its first decorator; empty without one."""
    code = getattr(_inner(function), "__code__", None) if callable(function) else None
    if code is None:
        return ""
    return f"{short_path(code.co_filename)}:{code.co_firstlineno}: "


def is_async(function: object) -> bool:
    """Return whether calling a function gives a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asks about an object with an async __call__
    )


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters; None for some classes and functions of Python itself, which do not reveal them."""
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        return None


def takes_one_argument(function: Callable[..., Any]) -> bool:
    """Return whether it can be called with one argument; True if it does not reveal its parameters."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def annotations_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of the parameters and of `return`.

    An annotation that cannot be resolved stays a text, such as one that is imported for the type checker only.
    Event classes and contexts are always resolved.
    """
    inner = _inner(function)
    written: Mapping[str, Any] = getattr(inner, "__annotations__", {})
    return {name: _resolved(annotation, inner) for name, annotation in written.items()}


def is_vague(annotation: object) -> bool:
    """Return whether an annotation is missing or allows everything."""
    return any(annotation is one for one in _VAGUE)


def mentions(annotation: object, wanted: type) -> bool:
    """Return whether an annotation is this class, alone or in a union, or a text with the name of the class."""
    if isinstance(annotation, str):
        return re.search(rf"\b{wanted.__name__}\b", annotation) is not None
    return any(one is wanted for one in alternatives(annotation))


def alternatives(annotation: object) -> tuple[object, ...]:
    """Return the members of a union, without what `Annotated` adds; for any other annotation, itself."""
    annotation = without_notes(annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(one for part in typing.get_args(annotation) for one in alternatives(part))
    return (annotation,)


def without_notes(annotation: Any) -> Any:
    """Return an annotation without what `Annotated` adds to it."""
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def require_resource_type(owner: str, wanted: object) -> None:
    """Raise HandlerError unless this type can name a resource."""
    if isinstance(wanted, str):
        raise HandlerError(
            f"{owner}: {wanted!r} cannot be resolved; import it at run time too, not only for the type checker"
        )
    plain = typing.get_origin(wanted) or wanted
    if wanted is None or is_vague(wanted) or getattr(plain, "__module__", "") == "builtins":
        shown = getattr(wanted, "__name__", None) or repr(wanted)
        raise HandlerError(
            f"{owner}: {shown} does not name one resource; use a class of its own, or typing.NewType"
        )
    try:
        hash(wanted)
    except TypeError:
        raise HandlerError(f"{owner}: {wanted!r} cannot be looked up; use a class") from None


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the annotations, inside partials, objects and decorators."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        called = "__init__" if isinstance(function, type) else "__call__"
        owner = function if isinstance(function, type) else type(function)
        function = getattr(owner, called)
    inner: Callable[..., Any] = inspect.unwrap(function)
    return inner


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        known = _OURS | getattr(function, "__globals__", {})
        return typing.get_type_hints(holder, globalns=known, include_extras=True)["it"]
    except Exception:
        return annotation
