"""Options of handlers: their policies, and all wrong combinations."""

import ast
import functools
import inspect
import textwrap
import typing
from datetime import timedelta
from typing import Any

import pytest

from receiver.errors import HandlerError
from receiver.events import (
    BatchScrapeCompleted,
    CrawlCompleted,
    CrawlEvent,
    CrawlFailed,
    CrawlPage,
    Event,
    ExtractCompleted,
    MonitorCheckCompleted,
    PageEvent,
    TerminalEvent,
    UnknownEvent,
)
from receiver.routing import DEFAULT_LINGER, DEFAULT_QUIET, HandlerOptions, Router, RunOptions
from receiver.routing.context import Context
from receiver.routing.policies import AfterPages, Batch, Rate, RunsIn
from tests.doubles import told
from tests.routing.test_router import added, index, index_async, mistake

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class OwnError(Exception):
    """Of a handler's module."""


# --- lanes


def test_ordered_makes_the_job_the_lane() -> None:
    """An event without a job needs no order."""
    lane = added(CrawlEvent, ordered=True).lane

    assert lane is not None
    assert (lane.key(CrawlPage(job_id="j")), lane.key(CrawlPage())) == ("j", None)
    assert not lane.holds_when_dead


def test_lane_takes_another_key() -> None:
    """A dead item may stop the lane."""
    lane = added(CrawlPage, lane=lambda event: event.url, on_dead="hold").lane

    assert lane is not None
    assert lane.key(CrawlPage()) is None
    assert lane.holds_when_dead


@pytest.mark.parametrize("options", [{}, {"ordered": False}, {"lane": None}], ids=told)
def test_there_are_no_lanes_by_default(options: dict[str, Any]) -> None:
    """All events may run at one time."""
    assert added(CrawlPage, **options).lane is None


# --- after pages


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"after_pages": MINUTE * 25}, AfterPages(MINUTE * 25, DEFAULT_QUIET)),
        ({"after_pages": MINUTE * 25, "quiet": SECOND}, AfterPages(MINUTE * 25, SECOND)),
        ({"after_pages": MINUTE * 25, "quiet": timedelta(0)}, AfterPages(MINUTE * 25, timedelta(0))),
        ({"after_pages": 1500, "quiet": 1.5}, AfterPages(MINUTE * 25, SECOND * 1.5)),
        ({"after_pages": MINUTE}, AfterPages(MINUTE, MINUTE)),
        ({}, None),
        ({"after_pages": None}, None),
    ],
    ids=told,
)
def test_the_last_event_waits_for_its_pages(options: dict[str, Any], expected: AfterPages | None) -> None:
    """The default covers the sender's first retry, and is never longer than the whole wait."""
    assert added(CrawlCompleted, **options).after_pages == expected
    assert timedelta(seconds=90) == DEFAULT_QUIET


@pytest.mark.parametrize(
    "wanted",
    [
        (CrawlCompleted,),
        (CrawlCompleted, CrawlFailed, BatchScrapeCompleted, MonitorCheckCompleted),
        ("crawl.completed",),
        ("crawl.c*", "*.failed", CrawlFailed)[::2],
        ("monitor.check.*",),
    ],
    ids=told,
)
def test_events_that_end_a_job_with_pages_can_wait(wanted: tuple[Any, ...]) -> None:
    """By class, name and glob."""
    assert added(*wanted, after_pages=MINUTE).after_pages is not None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ((CrawlPage,), "CrawlPage includes crawl.page"),
        ((CrawlEvent,), "CrawlEvent includes crawl.started"),
        ((CrawlCompleted, PageEvent), "PageEvent includes crawl.page"),
        ((TerminalEvent,), "TerminalEvent includes extract.completed"),
        ((ExtractCompleted,), "ExtractCompleted includes extract.completed"),
        ((Event,), "Event includes crawl.started"),
        ((UnknownEvent,), "no known type is like UnknownEvent"),
        (("crawl.*",), "'crawl.*' includes crawl.started"),
        (("*.completed",), "'*.completed' includes extract.completed"),
        (("new.completed",), "no known type is like 'new.completed'"),
    ],
    ids=told,
)
def test_other_events_cannot_wait_for_pages(wanted: tuple[Any, ...], words: str) -> None:
    """A page would wait for itself."""
    text = mistake(*wanted, after_pages=MINUTE)

    assert "after_pages= is for the last event of jobs with pages" in text
    assert words in text


# --- batches and limits


@pytest.mark.parametrize(
    ("options", "batch"),
    [
        ({"batch": 100}, Batch(100, DEFAULT_LINGER)),
        ({"batch": 1, "linger": SECOND * 2}, Batch(1, SECOND * 2)),
        ({"batch": 1, "linger": 0.5}, Batch(1, SECOND / 2)),
        ({"batch": 10_000, "linger": timedelta(0)}, Batch(10_000, timedelta(0))),
        ({}, None),
    ],
    ids=told,
)
def test_a_batch_has_a_size_and_a_time(options: dict[str, Any], batch: Batch | None) -> None:
    """It is called when one of them is reached."""
    assert added(CrawlPage, **options).batch == batch


@pytest.mark.parametrize(
    ("written", "interval"),
    [
        ("10/s", SECOND / 10),
        ("1/sec", SECOND),
        ("30/min", SECOND * 2),
        ("60/minute", SECOND),
        ("500/h", SECOND * 7.2),
        ("24/day", SECOND * 3600),
    ],
)
def test_a_rate_is_a_number_and_a_unit(written: str, interval: timedelta) -> None:
    """Attempts are evenly spaced."""
    assert added(CrawlPage, rate=written).rate == Rate(interval)


def test_a_rate_above_the_resolution_of_the_clock_is_refused() -> None:
    """Its attempts would have no time between them."""
    with pytest.raises(HandlerError, match="leave the rate out"):
        added(CrawlPage, rate="9000000/s")


def test_concurrency_is_a_number() -> None:
    """None is no limit."""
    assert added(CrawlPage, concurrency=3).concurrency == 3
    assert added(CrawlPage).concurrency is None


@pytest.mark.parametrize(
    ("options", "retry_on", "give_up_on"),
    [
        ({}, (), ()),
        ({"retry_on": OwnError}, (OwnError,), ()),
        ({"retry_on": (OwnError, OSError), "give_up_on": KeyError}, (OwnError, OSError), (KeyError,)),
        ({"give_up_on": (ValueError,), "retry_on": UnicodeError}, (UnicodeError,), (ValueError,)),
    ],
    ids=told,
)
def test_exceptions_are_one_class_or_several(options: Any, retry_on: Any, give_up_on: Any) -> None:
    """Their meaning is tested with the failures of the worker."""
    handler = added(CrawlPage, **options)

    assert (handler.retry_on, handler.give_up_on) == (retry_on, give_up_on)


# --- where it runs


def test_async_functions_run_in_the_loop_and_plain_ones_in_threads() -> None:
    """Unless a plain one asks for a process."""
    assert added(CrawlPage, function=index_async).runs_in is RunsIn.LOOP
    assert added(CrawlPage).runs_in is RunsIn.THREAD
    assert added(CrawlPage, run_in="process").runs_in is RunsIn.PROCESS
    assert added(CrawlPage, run_in="process", batch=3).runs_in is RunsIn.PROCESS


class Tools:
    """Functions in a class."""

    @staticmethod
    def static(event: Event) -> None: ...
    def method(self, event: Event) -> None: ...
    def __call__(self, event: Event) -> None: ...


def with_context(event: Event, ctx: Context) -> None: ...
def with_resource(event: Event, tools: Tools) -> None: ...


def local() -> Any:
    def inner(event: Event) -> None: ...

    return inner


def of_main(event: Event) -> None: ...
def of_page(event: CrawlPage) -> None: ...


of_main.__module__ = "__main__"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (index_async, "is for plain functions, and this one is async"),
        (lambda event: None, "must be found by its name in a module"),
        (local(), "must be found by its name in a module"),
        (Tools().method, "must be found by its name in a module"),
        (Tools(), "must be found by its name in a module"),
        (of_main, "must be found by its name in a module"),
        (print, "the function takes its event alone"),
        (with_context, "the function takes its event alone"),
        (with_resource, "the function takes its event alone"),
    ],
    ids=told,
)
def test_a_function_that_cannot_run_in_a_process_is_a_mistake(function: Any, words: str) -> None:
    """Another process imports the function, and gets only the deliveries."""
    assert words in mistake(CrawlPage, function=function, run_in="process", name="h")


def test_a_static_method_can_run_in_a_process() -> None:
    """It is found by its name."""
    router = Router()
    router.add(Tools.static, CrawlPage, run_in="process")
    router.check()


hiding = Router()


@functools.cache
@hiding.on(CrawlPage, run_in="process")
def hidden(event: Event) -> None: ...


def test_a_function_that_another_decorator_hides_is_a_mistake() -> None:
    """The other process would import the decorated function."""
    with pytest.raises(HandlerError, match=r"hidden is not this function; .* must be its outermost decorator"):
        hiding.check()


# --- mistakes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ordered": True, "lane": index}, "ordered=True is the lane of the job; leave it out beside lane="),
        ({"ordered": "job"}, "ordered= is True or False; lane= takes a function"),
        ({"ordered": 1}, "ordered= is True or False"),
        ({"lane": "job_id"}, "lane= takes a function of the event"),
        ({"lane": index_async}, "lane= takes a plain function, not an async one"),
        ({"lane": lambda: None}, "lane= is called with one argument, the event"),
        ({"on_dead": "hold"}, "on_dead= is for lanes; add ordered=True or lane="),
        ({"on_dead": "stop", "ordered": True}, 'on_dead= is "release" or "hold", not \'stop\''),
        ({"quiet": MINUTE}, "quiet= is for after_pages="),
        ({"linger": MINUTE}, "linger= is for batch="),
        ({"batch": 10, "ordered": True}, "ordered= does not go with batch="),
        ({"batch": 10, "lane": index}, "lane= does not go with batch="),
        ({"batch": 10, "attempts": 1}, "attempts= must be 2 or more"),
        ({"batch": 10, "pauses": []}, "attempts= must be 2 or more"),
        ({"batch": 0}, "batch= takes a whole number from 1 to 10,000, not 0"),
        ({"batch": 10_001}, "batch= takes a whole number from 1 to 10,000"),
        ({"batch": True}, "batch= takes a whole number"),
        ({"batch": "10"}, "batch= takes a whole number"),
        ({"batch": 10.0}, "batch= takes a whole number"),
        ({"batch": 10, "linger": "2s"}, "linger= takes seconds or a timedelta"),
        ({"batch": 10, "linger": -SECOND}, "linger= takes from 0s to 10m"),
        ({"batch": 10, "linger": MINUTE * 11}, "linger= takes from 0s to 10m"),
        ({"concurrency": 0}, "concurrency= takes a whole number from 1, not 0"),
        ({"concurrency": True}, "concurrency= takes a whole number"),
        ({"concurrency": 1.5}, "concurrency= takes a whole number"),
        ({"rate": 30}, "rate= takes a text such as '30/min', not 30"),
        ({"rate": "30"}, "'30' is not a rate: write a number and a unit"),
        ({"rate": "0/min"}, "'0/min' is not a rate"),
        ({"rate": "30/fortnight"}, "is not a rate"),
        ({"rate": "30 / min"}, "is not a rate"),
        ({"retry_on": "OSError"}, "retry_on= takes exception classes, one or a tuple of them, not 'OSError'"),
        ({"retry_on": OSError()}, "retry_on= takes exception classes"),
        ({"give_up_on": [OSError]}, "give_up_on= takes exception classes"),
        ({"give_up_on": (OSError, int)}, "give_up_on= takes exception classes"),
        ({"retry_on": OSError, "give_up_on": (KeyError, OSError)}, "OSError is in retry_on= and in give_up_on="),
        ({"run_in": "thread"}, "run_in='thread' is not known. Without run_in="),
        ({"run_in": True}, "run_in=True is not known"),
        ({"name": 5}, "5 is not a name for a handler"),
    ],
    ids=told,
)
def test_options_that_make_no_sense_are_mistakes(options: dict[str, Any], words: str) -> None:
    """Each has its message, and nothing is registered."""
    assert words in mistake(CrawlPage, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"after_pages": "25m"}, "after_pages= takes seconds or a timedelta, as in 90 or timedelta(minutes=25)"),
        ({"after_pages": True}, "after_pages= takes seconds or a timedelta"),
        ({"after_pages": timedelta(0)}, "after_pages= must be more than 0 seconds"),
        ({"after_pages": -MINUTE}, "after_pages= takes from 0s to"),
        ({"after_pages": timedelta(days=10_000)}, "after_pages= takes from 0s to"),
        ({"after_pages": MINUTE, "quiet": MINUTE * 2}, "quiet= takes from 0s to 1m, not 120s"),
        ({"after_pages": MINUTE, "quiet": "5"}, "quiet= takes seconds or a timedelta"),
        ({"after_pages": MINUTE, "batch": 10}, "batch= does not go with after_pages="),
        ({"after_pages": MINUTE, "ordered": True}, "ordered= does not go with after_pages="),
        ({"after_pages": MINUTE, "lane": index}, "lane= does not go with after_pages="),
    ],
    ids=told,
)
def test_a_wait_that_makes_no_sense_is_a_mistake(options: dict[str, Any], words: str) -> None:
    """Only seconds and timedeltas are clear."""
    assert words in mistake(CrawlCompleted, **options)


# --- pages of a job


def test_the_page_handlers_of_a_job_are_found() -> None:
    """By class, base class, name and glob. `where` is not asked, because there is no event yet."""
    router = Router()
    wanted: dict[str, type[Event] | str] = {
        "page": CrawlPage,
        "family": CrawlEvent,
        "pages": PageEvent,
        "glob": "crawl.*",
        "all": "*",
        "ends": CrawlCompleted,
        "monitor": "monitor.page",
        "new": "new.page",
    }
    for name, one in wanted.items():
        router.add(index, one, name=name, where=lambda event: 1 / 0)

    assert router.page_handlers("crawl.completed") == ("page", "family", "pages", "glob", "all")
    assert router.page_handlers("monitor.check.completed") == ("all", "monitor")
    assert router.page_handlers("crawl.page") == ()
    assert router.page_handlers("extract.completed") == ()


@pytest.mark.parametrize(
    ("event_type", "expected"),
    [
        ("crawl.completed", "crawl.page"),
        ("crawl.failed", "crawl.page"),
        ("crawl.cancelled", "crawl.page"),
        ("batch_scrape.completed", "batch_scrape.page"),
        ("monitor.check.completed", "monitor.page"),
        ("crawl.started", None),
        ("crawl.page", None),
        ("extract.completed", None),
        ("agent.completed", None),
        ("new.completed", None),
        ("", None),
    ],
)
def test_the_page_type_of_a_job_is_that_of_its_family(event_type: str, expected: str | None) -> None:
    """There is none for events that do not end a job, and for jobs without pages."""
    assert Router.page_type(event_type) == expected


# --- the options as a type


def test_every_option_is_explained() -> None:
    """In a text below its line, which editors show."""
    lines: list[ast.stmt] = []
    for options in (RunOptions, HandlerOptions):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
        assert isinstance(definition, ast.ClassDef)
        lines += definition.body[1:]
    names = [ast.unparse(line.target) for line in lines[::2] if isinstance(line, ast.AnnAssign)]

    assert names == list(typing.get_type_hints(HandlerOptions))
    assert [type(line) for line in lines[1::2]] == [ast.Expr] * len(names)


def test_options_can_be_shared() -> None:
    """As a dictionary of that type."""
    careful: HandlerOptions[CrawlPage] = {"attempts": 3, "ordered": True, "where": lambda event: event.url}
    router = Router()
    router.on(CrawlPage, **careful)(index)
    router.add(of_page, CrawlPage, **careful)

    one, two = router
    assert one.schedule == two.schedule
    assert one.where is two.where


def test_the_help_of_on_lists_each_option() -> None:
    """In the order of `HandlerOptions`, which editors show."""
    lines = [line.split() for line in (inspect.getdoc(Router.on) or "").splitlines()]
    options = list(typing.get_type_hints(HandlerOptions))

    assert [line[0] for line in lines if line and line[0] in options] == options


def test_more_attempts_than_pauses_repeat_the_last_pause() -> None:
    """As the help says; fewer attempts leave the last ones out."""

    def of(**options: Any) -> list[float]:
        router = Router()
        router.add(lambda event: None, CrawlPage, name="h", **options)
        [handler] = router
        return [pause.total_seconds() for pause in handler.schedule.pauses]

    assert of(attempts=10, pauses=[1]) == [1] * 9
    assert of(attempts=2, pauses=[1, 5, 9]) == [1]
    assert of(pauses=[1, 5]) == [1, 5]
