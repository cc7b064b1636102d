"""Routers: the events that handlers want, and all mistakes that are found at registration."""

import functools
import itertools
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.retries import DEFAULT_SCHEDULE, RetrySchedule
from receiver.core.types import HandlerName
from receiver.errors import HandlerError
from receiver.events import (
    BatchScrapePage,
    CrawlCompleted,
    CrawlEvent,
    CrawlPage,
    CrawlStarted,
    Event,
    MonitorCheckCompleted,
    PageEvent,
    TerminalEvent,
    UnknownEvent,
)
from receiver.routing import DEFAULT_TIMEOUT, Handler, Router
from receiver.routing.context import Context
from receiver.routing.policies import RunsIn
from tests.doubles import told

SECOND = timedelta(seconds=1)


def index(event: Any) -> None: ...


class Pool:
    """A resource."""


def pool() -> Iterator[Pool]:
    yield Pool()


async def index_async(event: Any, ctx: Any) -> None: ...


def added(*wanted: Any, function: Callable[..., Any] = index, **options: Any) -> Handler:
    """Return the one handler of a router."""
    router = Router()
    router.add(function, *wanted, **options)
    (handler,) = router
    return handler


def mistake(*wanted: Any, function: Any = index, **options: Any) -> str:
    """Return the text of the error that registering ends with. Nothing is half registered."""
    router = Router()
    with pytest.raises(HandlerError) as caught:
        router.add(function, *wanted, **options)
    assert len(router) == 0
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- what fits


PAGE, STARTED, BATCH_PAGE = CrawlPage(), CrawlStarted(), BatchScrapePage()
CHECK, UNKNOWN = MonitorCheckCompleted(), UnknownEvent(type="new.thing")
ALL = {"page": PAGE, "started": STARTED, "batch": BATCH_PAGE, "check": CHECK, "unknown": UNKNOWN}


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ((CrawlPage,), {"page"}),
        ((CrawlEvent,), {"page", "started"}),
        ((PageEvent,), {"page", "batch"}),
        ((TerminalEvent,), {"check"}),
        ((Event,), set(ALL)),
        ((UnknownEvent,), {"unknown"}),
        (("crawl.page",), {"page"}),
        (("crawl.*",), {"page", "started"}),
        (("*.page",), {"page", "batch"}),
        (("*",), set(ALL)),
        (("monitor.*",), {"check"}),
        (("crawl.[ps]*",), {"page", "started"}),
        (("crawl.pag?",), {"page"}),
        (("new.thing",), {"unknown"}),
        (("new.*",), {"unknown"}),
        (("quite.other",), set()),
        ((CrawlStarted, "batch_scrape.*"), {"started", "batch"}),
        ((CrawlPage, "crawl.*", "*"), set(ALL)),
    ],
    ids=told,
)
def test_events_match_by_class_base_class_name_and_glob(wanted: tuple[Any, ...], fits: set[str]) -> None:
    """One match of several is enough."""
    handler = added(*wanted)

    assert {name for name, event in ALL.items() if handler.wants(event)} == fits


def test_where_narrows_the_events() -> None:
    """It is called for matching events only. Every true value counts as yes."""
    asked: list[Event] = []

    def where(event: Event) -> object:
        asked.append(event)
        return event.job_id

    handler = added(CrawlPage, where=where)

    assert handler.wants(CrawlPage(job_id="1"))
    assert not handler.wants(PAGE)
    assert not handler.wants(STARTED)
    assert len(asked) == 2


def test_an_error_in_where_is_raised() -> None:
    """The caller decides what it means."""
    handler = added(CrawlPage, where=lambda event: event.nothing)

    with pytest.raises(AttributeError):
        handler.wants(PAGE)


def test_a_coroutine_from_where_is_an_error() -> None:
    """It would count as yes for every event. A lambda does not show at import that it returns one."""
    handler = added(CrawlPage, where=lambda event: async_where(event))

    with pytest.raises(TypeError, match="where= returned a coroutine: write a plain function"):
        handler.wants(PAGE)


# --- how it is registered


def test_the_decorator_returns_the_function() -> None:
    """Unchanged, so it can be called and registered again."""
    router = Router()

    def tell(event: CrawlEvent) -> None: ...

    assert router.on(CrawlPage)(tell) is tell
    assert router.on(CrawlStarted, name="again")(tell) is tell
    assert [handler.function for handler in router] == [tell, tell]


def test_a_handler_has_the_documented_defaults() -> None:
    """Attempts, pauses, jitter and time-out."""
    assert added(CrawlPage) == Handler(
        name=HandlerName("tests.routing.test_router.index"),
        function=index,
        wanted=(CrawlPage,),
        where=None,
        schedule=DEFAULT_SCHEDULE,
        timeout=timedelta(seconds=60),
        runs_in=RunsIn.THREAD,
    )
    assert timedelta(seconds=60) == DEFAULT_TIMEOUT


def one_default(event: Any, ctx: Any = None) -> None: ...
def variadic(*args: Any) -> None: ...
def keyworded(event: Any, *, option: int = 1) -> None: ...


class Callables:
    """Handlers of other shapes than functions."""

    def method(self, event: Any) -> None: ...
    async def async_method(self, event: Any, ctx: Any) -> None: ...
    @staticmethod
    def static(event: Any) -> None: ...
    def __call__(self, event: Any, ctx: Any) -> None: ...


class AsyncCallable:
    """An object with an async call."""

    async def __call__(self, event: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async", "takes_context"),
    [
        (index, False, False),
        (index_async, True, True),
        (one_default, False, True),
        (variadic, False, True),
        (keyworded, False, False),
        (Callables().method, False, False),
        (Callables().async_method, True, True),
        (Callables.static, False, False),
        (Callables(), False, True),
        (AsyncCallable(), True, False),
        (functools.partial(index_async, ctx=None), True, False),
        (functools.partial(index), False, False),
        (lambda event: None, False, False),
        (print, False, True),
    ],
    ids=told,
)
def test_every_callable_of_one_or_two_arguments_is_a_handler(
    function: Callable[..., Any], is_async: bool, takes_context: bool
) -> None:
    """Whether it is async and takes the context is decided once."""
    handler = added(CrawlPage, function=function, name="h")

    assert (handler.runs_in is RunsIn.LOOP, handler.takes_context) == (is_async, takes_context)
    assert handler.context_name is None


@pytest.mark.parametrize(
    ("options", "schedule"),
    [
        ({}, DEFAULT_SCHEDULE),
        ({"attempts": 1}, RetrySchedule(())),
        ({"attempts": 3}, RetrySchedule((SECOND, SECOND * 10))),
        ({"pauses": [SECOND]}, RetrySchedule((SECOND,))),
        ({"pauses": []}, RetrySchedule(())),
        ({"pauses": [SECOND], "attempts": 3}, RetrySchedule((SECOND, SECOND))),
        ({"pauses": [SECOND], "jitter": 0}, RetrySchedule((SECOND,), 0)),
        ({"jitter": 1.0}, RetrySchedule(DEFAULT_SCHEDULE.pauses, 1)),
    ],
    ids=told,
)
def test_the_schedule_is_made_from_options(options: dict[str, Any], schedule: RetrySchedule) -> None:
    """Number, pauses and jitter, alone or together."""
    assert added(CrawlPage, **options).schedule == schedule


@pytest.mark.parametrize(
    ("timeout", "expected"), [(30, SECOND * 30), (0.5, SECOND / 2), (SECOND * 3, SECOND * 3)], ids=told
)
def test_the_timeout_is_in_seconds_or_a_duration(timeout: float | timedelta, expected: timedelta) -> None:
    """More than nothing."""
    assert added(CrawlPage, timeout=timeout).timeout == expected


# --- merging


def test_routers_merge_in_order() -> None:
    """With the handlers that are registered at that time."""
    one, two = Router(), Router()
    one.add(index, CrawlPage, name="one")
    two.add(index, CrawlPage, name="two")
    both = Router(two, one)
    one.add(index, CrawlPage, name="late")

    assert [handler.name for handler in both] == ["two", "one"]
    assert len(both) == 2
    assert both[HandlerName("one")].function is index


def test_a_name_in_two_routers_is_a_mistake() -> None:
    """The error names it and says what to do."""
    one, two = Router(), Router()
    one.add(index, CrawlPage, name="same")
    two.add(index_async, CrawlPage, name="same")

    with pytest.raises(HandlerError, match=r"two handlers are named 'same'.*name="):
        Router(one, two)


def test_a_router_that_comes_in_by_two_ways_counts_once() -> None:
    """Two routers may both include a third."""
    shared = Router()
    shared.add(index, CrawlPage)
    shared.resource(pool)

    merged = Router(Router(shared), Router(shared), shared)
    merged.include(merged)

    assert [list(merged), list(merged.resources)] == [list(shared), [Pool]]


def test_a_clash_leaves_nothing_half_merged() -> None:
    """The router is unchanged."""
    one, two = Router(), Router()
    one.add(index, CrawlPage, name="same")
    two.add(index, CrawlPage, name="first")
    two.add(index, CrawlPage, name="same")

    with pytest.raises(HandlerError):
        one.include(two)

    assert [handler.name for handler in one] == ["same"]


@pytest.mark.parametrize("other", [None, index, [], "handlers"], ids=told)
def test_only_routers_are_included(other: Any) -> None:
    """A module or a function in place of a router is a usual mistake."""
    with pytest.raises(HandlerError, match="can include routers only"):
        Router(other)


# --- mistakes


def generator(event: Any) -> Iterator[int]:
    yield 1


async def async_generator(event: Any) -> AsyncIterator[int]:
    yield 1


def none_at_all() -> None: ...
def three(event: Any, ctx: Any, more: Any) -> None: ...
def keyword_only(*, event: Any) -> None: ...
def needs_option(event: Any, *, option: int) -> None: ...


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ((), "say which events it wants, as in on(CrawlPage)"),
        (("crawl.pages",), "no event type matches 'crawl.pages'; did you mean 'crawl.page'?"),
        (("crawl.complete",), "did you mean 'crawl.completed'?"),
        (("crawls.page",), "did you mean 'crawl.page'?"),
        (("Crawl.page",), "no event type matches 'Crawl.page'; did you mean 'crawl.page'?"),
        (("batch-scrape.page",), "did you mean 'batch_scrape.page'?"),
        (("check.completed",), "did you mean 'monitor.check.completed'?"),
        (("page",), "did you mean 'crawl.page'?"),
        (("crawl.paeg*",), "no event type matches 'crawl.paeg*'"),
        (("crowl.*",), "no event type matches 'crowl.*'; did you mean 'crawl.*'?"),
        (("crowl.page",), "no event type matches 'crowl.page'; did you mean 'crawl.page'?"),
        (("",), "no event type matches ''"),
        ((None,), "None is neither an event class nor a type name"),
        ((Context,), "is neither an event class nor a type name"),
        ((CrawlPage(),), "is neither an event class nor a type name"),
        ((b"crawl.page",), "is neither an event class nor a type name"),
        (([CrawlPage],), "is neither an event class nor a type name"),
        ((index,), "is neither an event class nor a type name"),
    ],
    ids=told,
)
def test_an_event_that_does_not_exist_is_a_mistake(wanted: tuple[Any, ...], words: str) -> None:
    """The error names the handler and a similar event."""
    text = mistake(*wanted)

    assert words in text
    assert "tests.routing.test_router.index" in text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (none_at_all, "cannot be called as (event) or (event, ctx)"),
        (three, "cannot be called as (event) or (event, ctx)"),
        (keyword_only, "cannot be called as (event) or (event, ctx)"),
        (needs_option, "parameter 'option': int does not name one resource"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (None, "a handler must be a function, not None"),
        ("index", "a handler must be a function, not 'index'"),
        (lambda event: None, "has no name of its own: give it name="),
        (functools.partial(index), "has no name of its own: give it name="),
    ],
    ids=told,
)
def test_a_function_that_cannot_take_an_event_is_a_mistake(function: Any, words: str) -> None:
    """It is found at registration, not at the first event."""
    assert words in mistake(CrawlPage, function=function)


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "x" * 201, "a\nb", "ä;"])
def test_an_invalid_name_is_a_mistake(name: str) -> None:
    """Names are kept in the store and typed into commands."""
    assert "is not a name for a handler" in mistake(CrawlPage, name=name)


def test_a_name_used_twice_is_a_mistake() -> None:
    """Two functions of one name in one module, say."""
    router = Router()
    router.add(index, CrawlPage)

    place = r"tests/routing/test_router\.py:\d+"
    with pytest.raises(
        HandlerError, match=rf"{place}: two handlers are named '\S+index', the other at {place}: give"
    ):
        router.add(index, CrawlStarted)
    assert len(router) == 1


def test_a_decorator_without_events_is_a_mistake() -> None:
    """It would replace the function and register nothing."""
    router = Router()
    bare: Any = router.on

    with pytest.raises(HandlerError, match=r"test_router\.py:\d+: index .* as in @router\.on\(CrawlPage\)"):
        bare(index)


async def async_where(event: Any) -> bool:
    return True


@functools.wraps(async_where)
def wrapped_async_where(event: Any) -> object:
    return async_where(event)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (5, "where= takes a function of the event"),
        (True, "where= takes a function of the event"),
        ("event.success", "where= takes a function of the event"),
        (async_where, "where= takes a plain function, not an async one"),
        (AsyncCallable(), "where= takes a plain function, not an async one"),
        (wrapped_async_where, "where= takes a plain function, not an async one"),
        (lambda: True, "where= is called with one argument, the event"),
        (lambda a, b: True, "where= is called with one argument, the event"),
    ],
    ids=told,
)
def test_a_wrong_where_is_a_mistake(where: Any, words: str) -> None:
    """An async one would always be true."""
    assert words in mistake(CrawlPage, where=where)


@pytest.mark.parametrize("function", [bool, str, dict], ids=told)
def test_built_in_classes_can_be_where_and_handler(function: Any) -> None:
    """Some of them do not tell their signature, which is not the user's mistake."""
    handler = added(CrawlPage, function=function, name="h", where=function)

    assert (handler.function, handler.where) == (function, function)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attempts": 0}, "attempts= takes a whole number from 1 to 10,000, not 0"),
        ({"attempts": -3}, "attempts= takes a whole number from 1 to 10,000, not -3"),
        ({"attempts": "5"}, "attempts= takes a whole number from 1 to 10,000, not '5'"),
        ({"attempts": 5.0}, "attempts= takes a whole number"),
        ({"attempts": True}, "attempts= takes a whole number"),
        ({"attempts": 10**9}, "attempts= takes a whole number"),
        ({"pauses": [-1]}, "pauses= takes from 0s to 3650d, not -1s"),
        (
            {"pauses": [math.nan]},
            "pauses= takes seconds or a timedelta, as in 90 or timedelta(minutes=25), not nan",
        ),
        ({"pauses": [True]}, "pauses= takes seconds or a timedelta"),
        ({"pauses": ["5s"]}, "pauses= takes seconds or a timedelta"),
        ({"pauses": 5}, "pauses= takes a list of seconds or timedeltas, as in [5, 60], not 5"),
        ({"pauses": SECOND}, "pauses= takes a list of seconds or timedeltas"),
        ({"pauses": "55"}, "pauses= takes a list of seconds or timedeltas"),
        ({"pauses": {5, 60}}, "pauses= takes a list of seconds or timedeltas"),
        ({"pauses": itertools.repeat(5)}, "pauses= takes fewer than 10,000 retry delays"),
        ({"jitter": -0.1}, "jitter= takes a share of the retry delay, from 0 to 1, not -0.1"),
        ({"jitter": 1.5}, "jitter= takes a share of the retry delay"),
        ({"jitter": math.nan}, "jitter= takes a share of the retry delay"),
        ({"jitter": "0.5"}, "jitter= takes a share of the retry delay"),
        ({"jitter": True}, "jitter= takes a share of the retry delay"),
        ({"timeout": 0}, "timeout= must be more than 0 seconds"),
        ({"timeout": -1}, "timeout= takes from 0s to 3650d, not -1s"),
        ({"timeout": timedelta(0)}, "timeout= must be more than 0 seconds"),
        ({"timeout": timedelta.max}, "timeout= takes from 0s to 3650d"),
        ({"timeout": "30"}, "timeout= takes seconds or a timedelta"),
        ({"timeout": True}, "timeout= takes seconds or a timedelta"),
        ({"timeout": None}, "timeout= takes seconds or a timedelta"),
        ({"timeout": math.inf}, "timeout= takes seconds or a timedelta"),
        ({"timeout": math.nan}, "timeout= takes seconds or a timedelta"),
    ],
    ids=told,
)
def test_a_policy_that_makes_no_sense_is_a_mistake(options: dict[str, Any], words: str) -> None:
    """The error names the handler, and where it is."""
    text = mistake(CrawlPage, **options)

    assert words in text
    assert re.match(r"tests/routing/test_router\.py:\d+: tests\.routing\.test_router\.index: ", text)


def test_an_unknown_option_is_a_mistake() -> None:
    """A mistake such as retries= must not be ignored."""
    with pytest.raises(TypeError, match=r"no option attempt=; did you mean attempts=\?"):
        Router().on(CrawlPage, attempt=3)(index)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="no option colour=; the options are after_pages=, attempts=, "):
        Router().add(index, CrawlPage, colour=3)  # type: ignore[call-arg]


# --- annotations


def of_page(event: CrawlPage) -> None: ...
def of_base(event: CrawlEvent) -> None: ...
def of_union(event: CrawlPage | CrawlStarted, ctx: Context) -> None: ...
def of_text(event: "CrawlPage") -> None: ...
def of_any(event: Any) -> None: ...
def of_object(event: object) -> None: ...
def of_class_for_the_type_checker(event: Any) -> None: ...
def of_unknown_name(event: Any) -> None: ...
def of_broken_text(event: Any) -> None: ...


of_class_for_the_type_checker.__annotations__["event"] = "CrawlFailed | CrawlPage"
of_unknown_name.__annotations__["event"] = "CrawlPag"
of_broken_text.__annotations__["event"] = "CrawlPage["


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (of_page, (CrawlPage,)),
        (of_base, (CrawlPage, CrawlCompleted, CrawlEvent)),
        (of_union, (CrawlPage, CrawlStarted)),
        (of_text, (CrawlPage,)),
        (of_any, (CrawlPage, BatchScrapePage)),
        (of_object, (CrawlPage,)),
        (of_base, ("crawl.*",)),
        (of_page, ("crawl.page", "crawl.p*")),
        (of_class_for_the_type_checker, (CrawlPage,)),
    ],
    ids=told,
)
def test_an_annotation_that_covers_the_events_is_valid(function: Any, wanted: tuple[Any, ...]) -> None:
    """Event classes are known even if they are imported for the type checker only."""
    added(*wanted, function=function)


@pytest.mark.parametrize(
    ("function", "wanted", "words"),
    [
        (of_page, (CrawlStarted,), "is registered for CrawlStarted and takes CrawlPage"),
        (of_page, ("*",), "is registered for '*', which includes every event, and takes CrawlPage; take Event"),
        (of_page, ("crawl.*",), "'crawl.*', which includes CrawlStarted, and takes CrawlPage; take CrawlEvent"),
        (of_page, ("crawl.started",), "which includes CrawlStarted, and takes CrawlPage; take CrawlStarted"),
        (of_page, ("*.page",), "which includes BatchScrapePage, and takes CrawlPage; take Event"),
        (of_page, ("new.thing",), "which includes UnknownEvent, and takes CrawlPage; take UnknownEvent"),
        (of_page, (CrawlPage, CrawlEvent), "is registered for CrawlEvent and takes"),
        (of_base, (BatchScrapePage,), "is registered for BatchScrapePage and takes"),
        (of_union, (CrawlPage, CrawlCompleted), "is registered for CrawlCompleted and takes"),
        (of_text, (PageEvent,), "is registered for PageEvent and takes"),
        (of_unknown_name, (CrawlPage,), "parameter 'event': 'CrawlPag' cannot be resolved"),
        (of_unknown_name, (CrawlPage,), "did you mean CrawlPage?"),
        (of_broken_text, (CrawlPage,), "parameter 'event': 'CrawlPage[' cannot be resolved"),
        (of_any, ("CrawlPage",), "'CrawlPage' is the name of a class, not of a type; write it without quotes"),
        (of_any, ([CrawlPage, CrawlStarted],), "write them one by one, as in on(CrawlPage, CrawlCompleted)"),
    ],
    ids=told,
)
def test_an_annotation_of_another_event_is_a_mistake(function: Any, wanted: tuple[Any, ...], words: str) -> None:
    """Copy and paste leaves the old class behind."""
    assert words in mistake(*wanted, function=function)
