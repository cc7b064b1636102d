"""Signatures of the clients' methods, for `help()`, `inspect.signature` and `create_autospec`."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, get_args, get_type_hints, is_typeddict

F = TypeVar("F", bound=Callable[..., Any])


class _Unset:
    """Stands for an option that is not given; the service decides about it then."""

    def __repr__(self) -> str:
        return "unset"


UNSET: Final = _Unset()


def describe(method: F, build: Callable[..., Any], *, yields: Any = None) -> F:
    """Return the method with name, docstring and signature of the function that builds its call.

    Keyword options are listed one by one. The method returns the call's result; with `yields`, such as Iterator, it
    yields one for each page.
    """
    hints = get_type_hints(build)
    (found,) = get_args(hints.pop("return"))
    parameters = list(_parameters(build, hints))
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    returns = found if yields is None else yields[found]
    attributes = {
        "__name__": build.__name__,
        "__qualname__": build.__name__,
        "__doc__": build.__doc__,
        "__annotations__": {one.name: one.annotation for one in parameters} | {"return": returns},
        "__signature__": inspect.Signature([first, *parameters], return_annotation=returns),
        "__wrapped__": build,
    }
    for name, value in attributes.items():
        setattr(method, name, value)
    return method


def _parameters(build: Callable[..., Any], hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    for one in inspect.signature(build).parameters.values():
        hint = hints[one.name]
        if one.kind is not inspect.Parameter.VAR_KEYWORD:
            yield one.replace(annotation=hint)
            continue
        (options,) = (part for part in get_args(hint) if is_typeddict(part))
        for name, form in get_type_hints(options).items():
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=UNSET, annotation=form)
