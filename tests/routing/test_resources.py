"""Resources: their declaration, the order in which they are made and closed, and errors in that."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from pathlib import Path
from typing import Annotated, Any, NewType

import pytest

from receiver import Router
from receiver.errors import HandlerError
from receiver.routing.resources import Resource, in_order, open_resources
from tests.doubles import event_of, eventually, told, turns


class Pool:
    """What most of the tests make. It is its own context manager as well."""

    async def __aenter__(self) -> "Pool":
        return self

    async def __aexit__(self, *_: object) -> None: ...


class Model:
    """Something else."""

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None: ...


Other = NewType("Other", Pool)


async def as_async_generator() -> AsyncIterator[Pool]:
    yield Pool()


async def as_other_async_generator() -> AsyncGenerator[Pool, None]:
    yield Pool()


def as_generator() -> Iterator[Pool]:
    yield Pool()


def as_other_generator() -> Generator[Pool, None, None]:
    yield Pool()


@asynccontextmanager
async def as_async_manager() -> AsyncIterator[Pool]:
    yield Pool()


@contextmanager
def as_manager() -> Iterator[Pool]:
    yield Pool()


def returns_async_manager() -> AbstractAsyncContextManager[Pool]:
    return Pool()


def returns_manager() -> AbstractContextManager[Pool]:
    return nullcontext(Pool())


def is_its_own_manager() -> Pool:
    return Pool()


async def as_text() -> "AsyncIterator[Pool]":
    yield Pool()


def resources(*functions: Callable[..., Any]) -> Mapping[Any, Resource]:
    made = [Resource.of(function) for function in functions]
    return {resource.gives: resource for resource in made}


@pytest.mark.parametrize(
    "function",
    [
        as_async_generator,
        as_other_async_generator,
        as_generator,
        as_other_generator,
        as_async_manager,
        as_manager,
        returns_async_manager,
        returns_manager,
        is_its_own_manager,
        as_text,
    ],
    ids=lambda function: function.__name__,
)
async def test_a_resource_can_be_declared_in_many_ways(function: Callable[..., Any]) -> None:
    """Generators and context managers, async and plain: the annotation tells the type."""
    async with open_resources(resources(function)) as made:
        assert list(made) == [Pool]
        assert isinstance(made[Pool], Pool)


@pytest.mark.parametrize("decorator", [Router.resource, lambda router, function: router.resource()(function)])
def test_the_decorator_may_have_empty_parentheses(decorator: Callable[..., Any]) -> None:
    """It returns the function unchanged."""
    router = Router()

    assert decorator(router, as_manager) is as_manager
    assert list(router.resources) == [Pool]


def no_annotation() -> Any: ...


async def yields_without_word():  # type: ignore[no-untyped-def]
    yield Pool()


async def coroutine() -> Pool:
    return Pool()


def returns_a_number() -> int:
    return 5


async def yields_a_number() -> AsyncIterator[int]:
    yield 5


async def yields_anything() -> AsyncIterator[Any]:
    yield 5


async def vague_parameter(pool) -> AsyncIterator[Model]:  # type: ignore[no-untyped-def]
    yield Model()


async def positional_only(pool: Pool, /) -> AsyncIterator[Model]:
    yield Model()


async def unknown_name() -> "AsyncIterator[NotImported]":  # type: ignore[name-defined]  # noqa: F821
    yield Model()


async def unhashable() -> AsyncIterator[Annotated[Pool, []]]:
    yield Pool()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_annotation, "must yield what it makes"),
        (yields_without_word, "has to say what it yields: annotate it with -> AsyncIterator[...]"),
        (coroutine, "must yield what it makes: write a generator, async or plain"),
        (returns_a_number, "must yield what it makes, or be annotated with a context manager"),
        (Pool, "must yield what it makes: write a generator, async or plain"),
        (yields_a_number, "int does not name one resource"),
        (yields_anything, "Any does not name one resource"),
        (vague_parameter, "parameter 'pool': "),
        (positional_only, "'pool' must not be positional-only"),
        (unknown_name, "annotate it with -> AsyncIterator[...]"),
        (unhashable, "cannot be looked up"),
        (5, "a resource is a function, not 5"),
    ],
    ids=told,
)
def test_a_wrong_declaration_of_a_resource_is_a_mistake(function: Any, words: str) -> None:
    """It is found at registration."""
    with pytest.raises(HandlerError) as caught:
        Resource.of(function)

    assert words in str(caught.value)


# --- order


class Story:
    """Three resources that need each other, and what happens to them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.failing: dict[str, BaseException] = {}

    def tell(self, what: str) -> None:
        """Note it, or raise what is to be raised there."""
        self.told.append(what)
        if what in self.failing:
            raise self.failing[what]

    def makers(self) -> Mapping[Any, Resource]:
        """Return them in the wrong order."""
        tell = self.tell

        async def last(model: Model, pool: Pool) -> AsyncIterator[Other]:
            tell("make last")
            yield Other(pool)
            tell("close last")

        def middle(*, pool: Pool, size: int = 3) -> Iterator[Model]:
            tell("make middle")
            yield Model()
            tell("close middle")

        async def first() -> AsyncIterator[Pool]:
            tell("make first")
            yield Pool()
            tell("close first")

        return resources(last, middle, first)


async def test_resources_are_made_after_those_they_need_and_closed_in_reverse() -> None:
    """In whatever order they were registered."""
    story = Story()
    async with open_resources(story.makers()) as made:
        story.tell("work")
        assert made[Other] is made[Pool]

    names = ["first", "middle", "last"]
    made_first = [f"make {name}" for name in names]
    assert story.told == [*made_first, "work", *(f"close {name}" for name in reversed(names))]


async def test_plain_resources_share_one_thread() -> None:
    """Some libraries need that."""
    threads: list[threading.Thread] = []

    def plain() -> Iterator[Pool]:
        threads.append(threading.current_thread())
        yield Pool()
        threads.append(threading.current_thread())

    async with open_resources(resources(plain)):
        pass

    first, second = threads
    assert first is second is not threading.main_thread()


@pytest.mark.parametrize("name", ["first", "middle", "last"])
@pytest.mark.parametrize("error", [ValueError("no\nroute"), SystemExit(1)], ids=told)
async def test_a_resource_that_cannot_be_made_stops_the_start(name: str, error: BaseException) -> None:
    """The error names it and the place, and resources made before are closed."""
    story = Story()
    story.failing = {f"make {name}": error}
    with pytest.raises(HandlerError) as caught:
        async with open_resources(story.makers()):
            raise AssertionError("nothing may run")

    shown = " ".join(f"{type(error).__name__}: {error}".split())
    assert f"{name} could not be made: {shown} ({Path(__file__).relative_to(Path.cwd())}:" in str(caught.value)
    assert caught.value.__cause__ is error
    count = ["first", "middle", "last"].index(name)
    assert [told for told in story.told if told.startswith("close")] == ["close middle", "close first"][2 - count :]


async def test_an_error_while_closing_one_resource_does_not_keep_others_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged."""
    story = Story()
    story.failing = {"close last": ValueError("stuck"), "close middle": SystemExit(1)}
    async with open_resources(story.makers()):
        pass

    assert story.told[-1] == "close first"
    assert [event_of(record) for record in caplog.records] == ["resource_not_closed"] * 2
    assert "last" in vars(caplog.records[0])["resource"]


async def test_resources_are_closed_after_an_error() -> None:
    """Also after a cancellation."""
    story = Story()

    async def work() -> None:
        async with open_resources(story.makers()):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await eventually(lambda: "make last" in story.told)
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert story.told[-1] == "close first"


def not_a_manager() -> AbstractAsyncContextManager[Pool]:
    return 5  # type: ignore[return-value]


def not_a_plain_manager() -> AbstractContextManager[Pool]:
    return 5  # type: ignore[return-value]


async def yields_nothing() -> AsyncIterator[Pool]:
    return
    yield


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (not_a_manager, "it returned int, which is not an async context manager"),
        (not_a_plain_manager, "it returned int, which is not a context manager"),
        (yields_nothing, "generator didn't yield"),
    ],
    ids=told,
)
async def test_a_resource_that_returns_something_else_is_named(function: Any, words: str) -> None:
    """At the start."""
    with pytest.raises(HandlerError) as caught:
        async with open_resources(resources(function)):
            pass

    assert words in str(caught.value)
    assert function.__name__ in str(caught.value)


async def test_no_thread_is_made_without_resources(caplog: pytest.LogCaptureFixture) -> None:
    """The result is empty."""
    caplog.set_level(logging.DEBUG)
    before = threading.active_count()
    async with open_resources({}) as made:
        assert not made
        assert threading.active_count() == before


async def needs_model(model: Model) -> AsyncIterator[Pool]:
    yield Pool()


async def needs_pool(pool: Pool) -> AsyncIterator[Model]:
    yield Model()


def test_resources_that_need_each_other_are_a_mistake() -> None:
    """Both are named."""
    with pytest.raises(HandlerError, match=r"need each other: .*needs_(pool|model).* needs .*needs_") as caught:
        in_order(resources(needs_model, needs_pool))
    assert "\n" not in str(caught.value)


def test_a_resource_that_needs_a_missing_one_is_a_mistake() -> None:
    """The error names both."""
    with pytest.raises(
        HandlerError, match=r"^tests/.*\.py:\d+: .*needs_model wants Model as 'model', and no resource gives one"
    ):
        in_order(resources(needs_model))
