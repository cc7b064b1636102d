"""Resources that the handlers of a worker share, such as a database pool: declaring, opening and closing them."""

import asyncio
import collections.abc
import contextlib
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

from receiver.errors import HandlerError
from receiver.routing.introspection import (
    Needs,
    annotations_of,
    is_async,
    parameters_of,
    place_of,
    require_resource_type,
)
from receiver.runtime.log_lines import event_log
from receiver.runtime.tracebacks import error_line, with_place

log = event_log(__name__)

_ASYNC = (collections.abc.AsyncIterator, collections.abc.AsyncGenerator, AbstractAsyncContextManager)
_PLAIN = (collections.abc.Iterator, collections.abc.Generator, AbstractContextManager)

Maker = Callable[..., AbstractAsyncContextManager[Any] | AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Resource:
    """An object that is made once per worker. Handlers and other resources get it by its type."""

    name: str
    gives: Any
    needs: Needs
    manager: Maker
    is_async: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Resource":
        """Read the declaration of a resource; raises HandlerError for a wrong one."""
        if not callable(function):
            raise HandlerError(f"a resource is a function, not {function!r}")
        module, own = getattr(function, "__module__", "?"), getattr(function, "__qualname__", repr(function))
        name = f"the resource {module}.{own}"
        annotated = annotations_of(function).get("return")
        manager, asynchronous = _maker(name, function, annotated)
        gives = _given_by(annotated, is_generator=manager is not function)
        if gives is None:
            raise HandlerError(f"{name} has to say what it yields: annotate it with -> AsyncIterator[...]")
        require_resource_type(name, gives)
        return cls(name, gives, _needs(name, function), manager, asynchronous)


@asynccontextmanager
async def open_resources(resources: Mapping[Any, Resource]) -> AsyncIterator[Mapping[Any, object]]:
    """Make resources, each once and after those it needs; close them in reverse when the block ends.

    Plain ones are made and closed in a thread of their own. Raises HandlerError, caused by the error itself, which
    names the resource that could not be made. An error while closing is logged, and the others are closed.
    """
    made: dict[Any, object] = {}
    thread = ThreadPoolExecutor(1, thread_name_prefix="resources")
    async with AsyncExitStack() as stack:
        stack.callback(thread.shutdown, wait=False)
        for resource in in_order(resources):
            given = {name: made[wanted] for name, wanted in resource.needs}
            try:
                manager = _manager(resource, thread, given)
                made[resource.gives] = await manager.__aenter__()
            except (Exception, SystemExit) as exc:
                text = f"{resource.name} could not be made: {error_line(exc)}"
                raise HandlerError(with_place(text, exc)) from exc
            stack.push_async_callback(_close, resource, manager)
        yield made


def needed_by(needs: Sequence[Needs], resources: Mapping[Any, Resource]) -> Mapping[Any, Resource]:
    """Return the resources that are needed directly or through another resource."""
    found: dict[Any, Resource] = {}
    asked = [wanted for one in needs for _, wanted in one]
    while asked:
        wanted = asked.pop()
        if wanted in resources and wanted not in found:
            found[wanted] = resources[wanted]
            asked += [further for _, further in resources[wanted].needs]
    return found


def in_order(resources: Mapping[Any, Resource]) -> Sequence[Resource]:
    """Return resources in an order where each follows those it needs; raises HandlerError if they form a ring."""
    for resource in resources.values():
        require_given(resource.name, resource.manager, resource.needs, resources)
    sorter = TopologicalSorter(
        {gives: [wanted for _, wanted in resource.needs] for gives, resource in resources.items()}
    )
    try:
        return [resources[gives] for gives in sorter.static_order()]
    except CycleError as exc:
        of_ring = [resources[gives] for gives in reversed(exc.args[1])]
        ring = " needs ".join(resource.name for resource in of_ring)
        raise HandlerError(f"{place_of(of_ring[0].manager)}resources need each other: {ring}") from None


def require_given(owner: str, function: Callable[..., Any], needs: Needs, resources: Collection[Any]) -> None:
    """Raise HandlerError, with file and line of the owner's function, if it needs a type that no resource gives."""
    for parameter, wanted in needs:
        if wanted not in resources:
            there = ", ".join(_shown(one) for one in resources)
            raise HandlerError(
                f"{place_of(function)}{owner} wants {_shown(wanted)} as {parameter!r}, and no resource gives one: "
                "decorate a generator that yields it with @router.resource"
                + (f"; there are {there}" if there else "")
            )


def _shown(wanted: object) -> str:
    return getattr(wanted, "__name__", None) or repr(wanted)


async def _close(resource: Resource, manager: AbstractAsyncContextManager[Any]) -> None:
    try:
        await manager.__aexit__(None, None, None)
    except (Exception, SystemExit):
        log.exception("resource_not_closed", extra={"resource": resource.name})


def _manager(resource: Resource, thread: Executor, given: Mapping[str, object]) -> AbstractAsyncContextManager[Any]:
    if not resource.is_async:
        return _InThread(thread, partial(resource.manager, **given))
    manager = resource.manager(**given)
    if not isinstance(manager, AbstractAsyncContextManager):
        raise TypeError(f"it returned {type(manager).__name__}, which is not an async context manager")
    return manager


class _InThread(AbstractAsyncContextManager[Any]):
    """A plain context manager that is made, entered and left in a thread."""

    def __init__(self, thread: Executor, make: Callable[[], Any]) -> None:
        self._thread = thread
        self._make = make
        self._manager: Any = None

    async def __aenter__(self) -> Any:
        return await self._run(self._enter)

    async def __aexit__(self, *raised: Any) -> None:
        await self._run(partial(self._manager.__exit__, *raised))

    def _enter(self) -> Any:
        self._manager = self._make()
        if not isinstance(self._manager, AbstractContextManager):
            raise TypeError(f"it returned {type(self._manager).__name__}, which is not a context manager")
        return self._manager.__enter__()

    async def _run(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)


def _maker(name: str, function: Callable[..., Any], annotated: object) -> tuple[Maker, bool]:
    """Return the function that makes the context manager, and whether that is an async one."""
    if inspect.isasyncgenfunction(function):
        return contextlib.asynccontextmanager(function), True
    if inspect.isgeneratorfunction(function):
        return contextlib.contextmanager(function), False
    kind = typing.get_origin(annotated) or annotated
    if is_async(function) or isinstance(function, type) or not isinstance(kind, type):
        raise HandlerError(f"{name} must yield what it makes: write a generator, async or plain")
    if kind in _ASYNC or hasattr(kind, "__aenter__"):
        return function, True
    if kind in _PLAIN or hasattr(kind, "__enter__"):
        return function, False
    raise HandlerError(f"{name} must yield what it makes, or be annotated with a context manager")


def _given_by(annotated: Any, *, is_generator: bool) -> Any:
    """Return the type of the resource; None if the annotation does not say it."""
    if typing.get_origin(annotated) in (*_ASYNC, *_PLAIN):
        return typing.get_args(annotated)[0]
    return None if is_generator or annotated in (*_ASYNC, *_PLAIN) else annotated


def _needs(name: str, function: Callable[..., Any]) -> Needs:
    hints = annotations_of(function)
    needs = []
    for parameter in parameters_of(function) or ():
        if parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise HandlerError(f"{name}: {parameter.name!r} must not be positional-only; it is given by name")
        wanted = hints.get(parameter.name)
        require_resource_type(f"{name}, parameter {parameter.name!r}", wanted)
        needs.append((parameter.name, wanted))
    return tuple(needs)
