"""The parameters of a handler's function beside its event, read from its signature."""

import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Annotated, Any, NewType, Optional, Protocol

import pytest
from pydantic import BaseModel

from receiver.errors import HandlerError
from receiver.events import CrawlPage, CrawlStarted, Event
from receiver.routing import Router
from receiver.routing.context import BatchContext, Context
from receiver.routing.policies import RunsIn
from tests.routing.test_router import added, index, mistake


class Pool:
    """A resource."""


class WithType(Protocol):
    """What every event has."""

    type: str


class PageLike(ABC):
    """What pages are, for somebody who does not know of their class."""

    @abstractmethod
    def model_dump_json(self) -> str:
        """Return JSON."""


PageLike.register(CrawlPage)
Other = NewType("Other", Pool)
Named = Annotated[str, "a name"]


def plain(event: Any) -> None: ...
def second(event: Any, ctx) -> None: ...  # type: ignore[no-untyped-def]
def annotated(event: Any, told: Context) -> None: ...
def by_name(event: Any, *, told: Context) -> None: ...
def optional(event: Any, ctx: Context | None = None) -> None: ...
def old_optional(event: Any, ctx: Optional[Context] = None) -> None: ...  # noqa: UP045
def as_text(event: Any, ctx: "Context") -> None: ...
def unresolved(event: Any, ctx: "elsewhere.Context") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def resource(event: Any, pool: Pool) -> None: ...
def resource_first(event: Any, pool: Pool, ctx: Context) -> None: ...
def context_first(event: Any, ctx, pool: Pool) -> None: ...  # type: ignore[no-untyped-def]
def two_of_a_kind(event: Any, *, pool: Pool, other: Other, name: Named) -> None: ...
def defaults(event: Any, size: int = 3, pool: Pool | None = None, **more: Any) -> None: ...
def variadic(event: Any, *rest: Any) -> None: ...
def only_keywords(event: Any, **rest: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "takes_context", "context_name", "needs"),
    [
        (plain, False, None, {}),
        (second, True, None, {}),
        (annotated, True, None, {}),
        (by_name, True, "told", {}),
        (optional, True, None, {}),
        (old_optional, True, None, {}),
        (as_text, True, None, {}),
        (unresolved, True, None, {}),
        (resource, False, None, {"pool": Pool}),
        (resource_first, True, "ctx", {"pool": Pool}),
        (context_first, True, None, {"pool": Pool}),
        (two_of_a_kind, False, None, {"pool": Pool, "other": Other, "name": Named}),
        (defaults, False, None, {}),
        (variadic, True, None, {}),
        (only_keywords, False, None, {}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_signature_decides_the_arguments(
    function: Callable[..., Any], takes_context: bool, context_name: str | None, needs: dict[str, Any]
) -> None:
    """The context by place or annotation, resources by annotation. Parameters with defaults get nothing."""
    handler = added(CrawlPage, function=function)

    assert (handler.takes_context, handler.context_name) == (takes_context, context_name)
    assert dict(handler.needs) == needs


def two_contexts(event: Any, ctx: Context, more: Context) -> None: ...
def vague(event: Any, ctx: Any, more: Any) -> None: ...
def no_annotation(event: Any, ctx: Any, *, more) -> None: ...  # type: ignore[no-untyped-def]
def two_events(event: CrawlPage, other: CrawlPage) -> None: ...
def positional(event: Any, pool: Pool, /) -> None: ...
def positional_context(event: Any, pool: Pool, ctx: Context, /) -> None: ...
def number(event: Any, *, size: int) -> None: ...
def several(event: Any, *, sizes: list[int]) -> None: ...
def missing(event: Any, pool: "NotImported") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def batch_context(event: Any, ctx: BatchContext) -> None: ...


class Shop:
    def index(self, event: Any) -> None: ...
    @classmethod
    def tell(cls, event: Any) -> None: ...
    async def __call__(self, event: Any, ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (two_contexts, "takes the context twice"),
        (vague, "every other parameter needs the type of a resource as its annotation"),
        (no_annotation, "every other parameter needs the type of a resource as its annotation"),
        (two_events, "cannot be called as (event) or (event, ctx)"),
        (positional, "'pool' must not be positional-only; it is passed by name"),
        (positional_context, "'pool' must not be positional-only"),
        (number, "parameter 'size': int does not name one resource"),
        (several, "parameter 'sizes': list does not name one resource"),
        (missing, "'NotImported' cannot be resolved; import it at run time too"),
        (batch_context, "takes a BatchContext, and without batch= it gets a Context"),
        (
            Shop.index,
            "is a method, and its 'self' would get the event. Register it with its object, as in router.add",
        ),
        (vars(Shop)["tell"], "register it below its class, as in router.add(Shop.index, CrawlPage)"),
        (Shop, "() cannot be called as (event) or (event, ctx)"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_signature_that_cannot_be_filled_is_a_mistake(function: Any, words: str) -> None:
    """The error says which parameter and why."""
    assert words in mistake(CrawlPage, function=function)


@pytest.mark.parametrize(
    ("function", "is_async"),
    [(Shop().index, False), (Shop.tell, False), (Shop(), True), (functools.partial(Shop()), True)],
    ids=["method", "class method", "object", "partial"],
)
def test_a_method_with_its_object_is_a_handler(function: Any, is_async: bool) -> None:
    """So is an object that can be called."""
    handler = added(CrawlPage, function=function, name="h")

    assert (handler.runs_in is RunsIn.LOOP, handler.takes_context) == (is_async, is_async)


# --- lists


def of_list(events: list[CrawlPage]) -> None: ...
def of_sequence(events: Sequence[CrawlPage], ctx: BatchContext) -> None: ...
def of_union(events: Iterable[CrawlPage | CrawlStarted]) -> None: ...
def of_anything(events: Any) -> None: ...
def of_bare_list(events: list) -> None: ...  # type: ignore[type-arg]
def of_event(event: CrawlPage) -> None: ...
def of_number(event: int) -> None: ...
def of_context(event: Context | None) -> None: ...
def of_mapping(event: dict[str, object]) -> None: ...
def of_numbers(events: list[int]) -> None: ...
def of_tuple(events: tuple[CrawlPage, ...]) -> None: ...
def of_model(event: BaseModel) -> None: ...
def of_either(event: BaseModel | int) -> None: ...
def of_made(event: Annotated[CrawlPage, "a page"]) -> None: ...
def of_optional_made(event: Annotated[CrawlPage, "a page"] | None) -> None: ...
def of_any_made(event: Annotated[Any, "a page"] | None) -> None: ...
def of_page_like(event: PageLike | int) -> None: ...
@functools.wraps(of_number)
def of_wrapped(event: Any) -> None: ...
def of_made_list(events: list[Annotated[CrawlPage, "a page"]]) -> None: ...
def of_list_made(events: Annotated[Sequence[CrawlPage], "pages"] | None) -> None: ...
def of_list_like(events: list[PageLike]) -> None: ...
def of_protocol(event: WithType) -> None: ...
def of_other_list(events: list[CrawlStarted]) -> None: ...
def with_single_context(events: list[CrawlPage], ctx: Context) -> None: ...


@pytest.mark.parametrize("function", [of_list, of_sequence, of_union, of_anything, of_bare_list, index])
def test_a_batch_is_taken_as_a_list(function: Any) -> None:
    """Or as a sequence, collection or iterable."""
    assert added(CrawlPage, function=function, batch=10).batch is not None


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (of_event, {"batch": 10}, "takes CrawlPage: it gets a list, write list[CrawlPage]"),
        (of_other_list, {"batch": 10}, "is registered for CrawlPage and takes list["),
        (with_single_context, {"batch": 10}, "takes a Context, and with batch= it gets a BatchContext"),
        (of_list, {}, "add batch=, or take one event"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_list_in_the_wrong_place_is_a_mistake(function: Any, options: Any, words: str) -> None:
    """So is a single event in the place of a list."""
    assert words in mistake(CrawlPage, function=function, **options)


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (of_number, {}, "takes int, and its first parameter gets an event: write CrawlPage"),
        (of_context, {}, "gets an event: write CrawlPage"),
        (of_mapping, {}, "takes dict[str, object], and its first parameter gets an event: write CrawlPage"),
        (of_bare_list, {}, "takes list, and its first parameter gets an event: write CrawlPage"),
        (of_number, {"batch": 4}, "gets a list of events: write list[CrawlPage]"),
        (of_numbers, {"batch": 4}, "takes list[int], and its first parameter gets a list of events"),
        (of_tuple, {"batch": 4}, "gets a list of events: write list[CrawlPage]"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_annotation_that_no_event_fits_is_a_mistake(function: Any, options: Any, words: str) -> None:
    """The error says what to write."""
    assert words in mistake(CrawlPage, function=function, **options)


@pytest.mark.parametrize(
    "function",
    [
        of_model,
        of_either,
        of_made,
        of_optional_made,
        of_any_made,
        of_page_like,
        of_wrapped,
        of_protocol,
        index,
    ],
)
def test_an_annotation_that_an_event_may_fit_is_right(function: Any) -> None:
    """What cannot be told is no mistake."""
    assert added(CrawlPage, function=function).batch is None


@pytest.mark.parametrize("function", [of_made_list, of_list_made, of_list_like])
def test_an_annotation_that_a_list_of_events_may_fit_is_right(function: Any) -> None:
    """The same is true of batches."""
    assert added(CrawlPage, function=function, batch=4).batch is not None


# --- resources of routers


async def make_pool() -> AsyncIterator[Pool]:
    yield Pool()


async def make_other(pool: Pool) -> AsyncIterator[Other]:
    yield Other(pool)


async def make_another_pool() -> AsyncIterator[Pool]:
    yield Pool()


def test_the_resource_decorator_returns_the_function() -> None:
    """The router knows the type of the resource."""
    router = Router()

    assert router.resource(make_pool) is make_pool
    assert list(router.resources) == [Pool]
    assert router.resources[Pool].name.endswith("test_calls.make_pool")


def test_handlers_share_the_resources_of_a_merged_router() -> None:
    """Wherever they are registered."""
    handlers, makers = Router(), Router()
    handlers.add(two_of_a_kind, Event, name="h")
    makers.resource(make_pool)

    with pytest.raises(
        HandlerError,
        match=r"^tests/routing/test_calls\.py:\d+: h wants Pool as 'pool', and no resource gives one: decorate",
    ):
        Router(handlers).check()
    with pytest.raises(HandlerError, match=r": h wants Other as 'other'"):
        Router(handlers, makers).check()


def test_a_router_with_all_needed_resources_is_valid() -> None:
    """For handlers and for other resources."""
    router = Router()
    router.resource(make_other)
    router.add(resource_first, Event)
    with pytest.raises(HandlerError, match=r"make_other wants Pool"):
        router.check()

    router.resource(make_pool)

    router.check()


def test_a_type_given_twice_is_a_mistake() -> None:
    """At registration and when routers are merged; nothing is half merged."""
    one, two = Router(), Router()
    one.resource(make_pool)
    two.add(index, Event)
    two.resource(make_another_pool)

    with pytest.raises(HandlerError, match=r"make_another_pool and .*make_pool give the same type"):
        one.resource(make_another_pool)
    with pytest.raises(HandlerError, match="give the same type"):
        one.include(two)
    assert (len(one), len(one.resources)) == (0, 1)
