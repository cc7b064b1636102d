"""Recorded calls of handlers."""

import pytest

from receiver import Router
from receiver.events import CrawlPage, Event
from receiver.testing import Call, deliver, record_calls, sample

PAGE = sample("crawl.page")


def filled() -> tuple[Router, list[str]]:
    """Return a router with a handler of each kind, and the names of those that were called."""
    router, called = Router(), []

    @router.on(CrawlPage, name="shop.index")
    async def index(event: CrawlPage) -> str:
        called.append("index")
        return "indexed"

    @router.on("crawl.*", name="shop.tell")
    def tell(event: Event) -> str:
        called.append("tell")
        return "told"

    return router, called


def test_each_call_is_recorded_and_made() -> None:
    """The handler's return value is returned, and the original router is unchanged."""
    router, called = filled()
    recorded = record_calls(router)

    runs = deliver(PAGE, recorded.router)
    deliver(PAGE, router)

    assert [run.value for run in runs] == ["indexed", "told"]
    assert [(call.handler, call.event) for call in recorded.calls] == [
        ("shop.index", PAGE.event),
        ("shop.tell", PAGE.event),
    ]
    assert recorded.events("tell") == recorded.events("shop.index") == [PAGE.event]
    assert recorded.events() == [PAGE.event] * 2
    assert called == ["index", "tell"] * 2


def test_functions_need_not_be_called() -> None:
    """Calls are recorded, and nothing else happens."""
    router, called = filled()
    recorded = record_calls(router, run=False)

    runs = deliver(PAGE, recorded.router)

    assert [run.value for run in runs] == [None, None]
    assert len(recorded.calls) == 2
    assert called == []


def test_a_failed_call_is_recorded_with_its_error() -> None:
    """The error is raised."""
    router = Router()
    error = ValueError("no")

    @router.on("*", name="fails")
    def fails(event: Event) -> None:
        raise error

    recorded = record_calls(router)
    with pytest.raises(ValueError, match="no"):
        deliver(PAGE, recorded.router)

    assert [(call.handler, call.error) for call in recorded.calls] == [("fails", error)]
    assert isinstance(recorded.calls[0], Call)
