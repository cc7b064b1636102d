"""The fixtures of the plugin."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from receiver.routing import Router
from receiver.settings import Settings
from receiver.testing.clock import SteppedClock
from receiver.testing.work import Work

if TYPE_CHECKING:  # they bring a store and an HTTP client, which few tests need
    from receiver.testing.application import RunningReceiver
    from receiver.testing.sender import ScheduledSender


@pytest.fixture
def clock() -> SteppedClock:
    """The time of the test, shared by the service and the receiver; `await clock.advance(minutes=6)`."""
    return SteppedClock()


@pytest.fixture
def router() -> Router:
    """The handlers under test: write a fixture of this name that returns yours. This one has none."""
    return Router()


@pytest.fixture
def receiver_settings(tmp_path: Path) -> Settings:
    """The settings of `receiver_app`; for others, return `settings_for_test(tmp_path, ...)` from your own."""
    from receiver.testing.application import settings_for_test

    return settings_for_test(tmp_path)


@pytest.fixture
def resources() -> dict[Any, object]:
    """What handlers are given, by type, in the place of what the router would make: nothing. Write your own."""
    return {}


@pytest.fixture
async def receiver_app(
    router: Router, receiver_settings: Settings, clock: SteppedClock, resources: dict[Any, object]
) -> "AsyncIterator[RunningReceiver]":
    """The receiver as an ASGI app, with a store of its own, and a worker that runs the handlers of `router`."""
    from receiver.testing.application import open_receiver

    async with open_receiver(router, receiver_settings, clock, resources=resources) as app:
        yield app


@pytest.fixture
async def sender(receiver_app: "RunningReceiver", clock: SteppedClock) -> "AsyncIterator[ScheduledSender]":
    """The service: `await sender.send(sample("crawl.page"))` posts to `receiver_app`, signed, with its retries."""
    from receiver.testing.sender import open_sender

    settings = receiver_app.settings
    [secret, *_] = [*settings.plain_secrets(), None]
    token = (settings.token_header, settings.plain_tokens()[0]) if settings.token_header else None
    async with open_sender(
        receiver_app,
        clock,
        path=settings.path,
        secret=secret,
        signature_header=settings.signature_header,
        token=token,
    ) as opened:
        yield opened


@pytest.fixture
def work_items(receiver_app: "RunningReceiver") -> Callable[..., Awaitable[list[Work]]]:
    """What `receiver_app` has to do and has done: `assert_handled(await work_items())`."""
    return receiver_app.work_items


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Let pytest-asyncio run our async fixtures in its strict mode too, where it runs only those it has marked.

    Tests that anyio's plugin runs are left to that.
    """
    function: Any = fixturedef.func
    if function.__module__ == __name__ and inspect.isasyncgenfunction(function):
        function._force_asyncio_fixture = "anyio_backend" not in request.fixturenames
    return (yield)
