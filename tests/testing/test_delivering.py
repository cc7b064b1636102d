"""Handlers called with one delivery, in memory."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

from receiver import Context, GiveUp, HandlerError, Malformed, Retry, Router, parse_event
from receiver.core.types import Trigger, WorkState
from receiver.errors import NoApiKey
from receiver.events import CrawlPage, Event
from receiver.testing import assert_handled, deliver, deliver_async, job_story, record_calls, sample

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)


class Shelf:
    """A resource."""


@pytest.fixture
def router() -> Router:
    """Replaces the plugin's."""
    return Router()


def test_handlers_that_want_the_event_run(router: Router) -> None:
    """Async or plain, in order of registration. The results have their return values."""

    @router.on(CrawlPage, name="a")
    async def first(event: CrawlPage) -> str | None:
        return event.url

    @router.on("crawl.*", name="b")
    def second(event: Event) -> str:
        return event.type

    @router.on("agent.*", name="c")
    def third(event: Event) -> None:
        raise AssertionError("nobody calls this")

    runs = deliver(sample("crawl.page"), router)

    assert [(run.handler, run.state, run.attempts, run.value) for run in runs] == [
        ("a", WorkState.DONE, 1, "https://example.com/prices"),
        ("b", WorkState.DONE, 1, "crawl.page"),
    ]


@pytest.mark.parametrize("given", [sample("crawl.page").body, sample("crawl.page").event, sample("crawl.page")])
def test_samples_events_and_bytes_can_be_delivered(router: Router, given: Any) -> None:
    """All three give the handler the same event and the same delivery."""
    seen: list[Any] = []
    router.add(lambda event, ctx: seen.append((event, ctx.delivery.id)), "*", name="keep")

    deliver(given, router)

    assert seen == [(sample("crawl.page").event, sample("crawl.page").event.webhook_id)]


def test_several_deliveries_are_handled_in_their_order(router: Router) -> None:
    """Such as all events of a job. A handler of batches gets them together, and a key is asked for once."""
    story = job_story("crawl", pages=3)
    batches: list[list[str | None]] = []

    @router.on("*", name="each")
    def each(event: Event, ctx: Context) -> bool:
        return bool(ctx.once(str(event.job_id)))

    @router.on(CrawlPage, name="index", batch=2)
    async def index(events: list[CrawlPage]) -> None:
        batches.append([event.url for event in events])

    runs = deliver(story, router)
    same = deliver(iter(story), router)

    assert [(run.type, run.value) for run in runs if run.handler == "each"] == [
        (one.event.type, number == 0) for number, one in enumerate(story)
    ]
    assert [len(batch) for batch in batches] == [2, 1, 2, 1]
    assert_handled(runs, "index", times=3)
    assert [run.id for run in same] == [run.id for run in runs]


@pytest.mark.parametrize("given", ["crawl.page", {"type": "crawl.page"}, None, [5], CrawlPage])
def test_other_things_cannot_be_delivered(router: Router, given: Any) -> None:
    """The error says what can."""
    with pytest.raises(TypeError, match="a delivery is a sample, an event or the bytes of a body, not"):
        deliver(given, router)


def test_an_error_has_the_traceback_of_its_handler(router: Router) -> None:
    """pytest shows the test and the handler, and nothing between. The other handlers have run before."""
    called = []

    @router.on("*", name="fails")
    async def fails(event: Event) -> None:
        prices: dict[str, int] = {}
        prices["gear"] += 1

    router.add(lambda event: called.append(event), "*", name="runs")

    with pytest.raises(KeyError, match="gear") as raised:
        deliver(sample("crawl.page"), router)

    hidden = [frame for frame, _ in traceback.walk_tb(raised.tb) if "__tracebackhide__" in frame.f_locals]
    shown = traceback.extract_tb(raised.tb)[1 + len(hidden) :]
    assert [frame.f_code.co_name for frame in hidden] == ["deliver", "_raise_errors"]
    assert [(frame.name, frame.line) for frame in shown] == [("fails", 'prices["gear"] += 1')]
    assert len(called) == 1


@pytest.mark.parametrize("error", [Retry("later"), GiveUp("never"), SystemExit(3)])
def test_every_exception_is_raised(router: Router, error: BaseException) -> None:
    """Also `Retry` and `GiveUp`."""

    @router.on("*", name="fails")
    def fails(event: Event) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        deliver(sample("crawl.page"), router)

    assert raised.value is error


def test_several_errors_are_raised_in_a_group(router: Router) -> None:
    """None hides another."""

    @router.on("*", name="a")
    async def first(event: Event) -> None:
        raise ValueError("a")

    @router.on("*", name="b")
    def second(event: Event) -> None:
        raise TypeError("b")

    with pytest.raises(BaseExceptionGroup, match="2 handlers failed") as raised:
        deliver(sample("crawl.page"), router)

    assert [str(error) for error in raised.value.exceptions] == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "attempt", "state"),
    [
        (ValueError("x"), 1, WorkState.WAITING),
        (ValueError("x"), 2, WorkState.DEAD),
        (GiveUp("x"), 1, WorkState.DEAD),
        (Retry("x"), 1, WorkState.WAITING),
    ],
)
def test_an_unchecked_result_has_the_state_that_a_worker_would_set(
    router: Router, error: Exception, attempt: int, state: WorkState
) -> None:
    """By the policy of the handler, here two attempts."""

    @router.on("*", name="fails", attempts=2)
    async def fails(event: Event) -> None:
        raise error

    [run] = deliver(sample("crawl.page"), router, attempt=attempt, check=False)

    assert (run.state, run.attempts, run.exception) == (state, attempt, error)
    assert run.error == f"{type(error).__name__}: x"
    assert "raise error" in (run.traceback or "")


def test_the_context_has_the_given_values(router: Router) -> None:
    """Attempt, trigger, time and headers; credentials are masked as in the store."""
    told: list[Context] = []
    router.add(lambda event, ctx: told.append(ctx), "*", name="keep")

    deliver(sample("crawl.page"), router)
    deliver(
        sample("crawl.page"),
        router,
        attempt=3,
        now=NOON,
        headers={"X-Shop": "1", "Authorization": "Bearer secret"},
    )
    deliver(sample("crawl.page"), router, attempt=3, trigger=Trigger.REPLAY)

    assert [(ctx.attempt, ctx.trigger) for ctx in told] == [
        (1, Trigger.DELIVERY),
        (3, Trigger.RETRY),
        (3, Trigger.REPLAY),
    ]
    assert (told[1].now, told[1].delivery.received_at) == (NOON, NOON)
    assert told[1].delivery.headers == (("x-shop", "1"), ("authorization", "***"))
    assert told[1].job_id == sample("crawl.page").event.job_id


def test_resources_are_given_by_type_and_never_made(router: Router) -> None:
    """A missing one is reported before any handler runs."""
    called = []

    @router.resource
    async def make() -> AsyncIterator[Shelf]:
        called.append("made")
        yield Shelf()

    @router.on("*", name="first")
    async def first(event: Event) -> None:
        called.append("first")

    @router.on("*", name="save")
    async def save(event: Event, shelf: Shelf) -> Shelf:
        return shelf

    with pytest.raises(HandlerError, match="save wants Shelf as 'shelf'"):
        deliver(sample("crawl.page"), router)
    assert called == []

    mine = Shelf()
    assert deliver(sample("crawl.page"), router, resources={Shelf: mine})[1].value is mine
    assert called == ["first"]


def test_once_is_answered(router: Router) -> None:
    """True for each key once, and False for keys in `asked`."""

    @router.on("*", name="plain")
    def plain(event: Event, ctx: Context) -> list[bool]:
        return [bool(ctx.once("mail")), bool(ctx.once("mail")), bool(ctx.once("sms"))]

    @router.on("*", name="async")
    async def other(event: Event, ctx: Context) -> list[bool]:
        return [await ctx.once("mail"), await ctx.once("mail"), await ctx.once("sms")]

    runs = deliver(sample("crawl.page"), router, asked=["sms"])

    assert [run.value for run in runs] == [[True, False, False]] * 2


def test_a_handler_of_batches_gets_a_list_of_one(router: Router) -> None:
    """The batch does not wait for more events."""

    @router.on(CrawlPage, name="index", batch=100)
    async def index(events: list[CrawlPage]) -> int:
        return len(events)

    [run] = deliver(sample("crawl.page"), router)

    assert (run.state, run.value) == (WorkState.DONE, 1)


def test_a_condition_that_raises_is_a_failure(router: Router) -> None:
    """Its error is raised like that of a handler."""

    def wanted(event: Event) -> bool:
        raise LookupError("no such attribute")

    router.add(lambda event: None, "*", name="picky", where=wanted)

    with pytest.raises(LookupError, match="no such attribute"):
        deliver(sample("crawl.page"), router)


def test_a_handler_is_cancelled_at_its_time_out(router: Router) -> None:
    """In real time, as under a worker."""

    @router.on("*", name="slow", timeout=timedelta(milliseconds=1))
    async def slow(event: Event) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"took longer than 0\.001 s"):
        deliver(sample("crawl.page"), router)


def test_there_is_no_client_of_the_service(router: Router) -> None:
    """A test must not call the service."""

    @router.on("*", name="calls")
    async def calls(event: Event, ctx: Context) -> object:
        return ctx.client

    with pytest.raises(NoApiKey):
        deliver(sample("crawl.page"), router)


def test_a_body_that_the_endpoint_refuses_is_an_error(router: Router) -> None:
    """It would never reach a handler."""
    with pytest.raises(Malformed):
        deliver(b"{}", router)


async def test_async_tests_use_deliver_async(router: Router) -> None:
    """The handlers run in the event loop of the test."""
    loops = []

    @router.on("*", name="keep")
    async def keep(event: Event) -> None:
        loops.append(asyncio.get_running_loop())

    with pytest.raises(RuntimeError, match="await deliver_async"):
        deliver(sample("crawl.page"), router)
    await deliver_async(sample("crawl.page"), router)

    assert loops == [asyncio.get_running_loop()]


def test_an_event_without_handlers_is_not_a_failure(router: Router) -> None:
    """`assert_handled` reports that there is none."""
    assert list(deliver(sample("crawl.page"), router)) == []


def test_an_unknown_type_is_delivered(router: Router) -> None:
    """As under a worker."""
    router.add(lambda event: event, "schedule.*", name="keep")

    [run] = deliver(b'{"type": "schedule.done"}', router)

    assert run.value == parse_event(b'{"type": "schedule.done"}')


def test_an_error_of_a_handler_has_no_other_error_before_it(router: Router) -> None:
    """pytest shows the handler's error alone."""

    @router.on(CrawlPage, name="fails")
    def fails(event: CrawlPage) -> None:
        raise ValueError("no title")

    with pytest.raises(ValueError, match="no title") as raised:
        deliver(sample("crawl.page"), router)

    assert raised.value.__context__ is None


@pytest.mark.parametrize("use", [lambda given: deliver(sample("crawl.page"), given), record_calls])
def test_a_module_in_place_of_its_router_is_told_in_words(use: Any) -> None:
    """The text says which router of the module to write."""
    module = ModuleType("handlers")
    with pytest.raises(HandlerError, match="not the module handlers, which has none"):
        use(module)

    module.__dict__["router"] = Router()
    with pytest.raises(HandlerError, match=r"write handlers\.router"):
        use(module)

    with pytest.raises(HandlerError, match="a Router is expected, not list"):
        use([])
