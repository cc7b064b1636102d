"""The fixtures of the plugin. Their names begin with `receiver_`, so that they shadow none of a project."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from receiver.routing import Router
from receiver.service.extras import require_emulator
from receiver.settings import Settings
from receiver.testing.clock import SteppedClock
from receiver.testing.work import Work

if TYPE_CHECKING:  # they bring a store and an HTTP client, which few tests need
    from receiver.emulator.options import SiteSource
    from receiver.testing.application import RunningReceiver
    from receiver.testing.emulating import RunningEmulator
    from receiver.testing.sender import ScheduledSender


_NO_ROUTER = Router()


@pytest.fixture
def receiver_clock() -> SteppedClock:
    """The time of the test, for the service and the receiver: `await receiver_clock.advance(minutes=6)`."""
    return SteppedClock()


@pytest.fixture
def receiver_router() -> Router:
    """The handlers under test: write a fixture of this name that returns your router."""
    return _NO_ROUTER


@pytest.fixture
def receiver_resources() -> Mapping[Any, object]:
    """Resources by type that replace those of the router. There are none: write a fixture of this name."""
    return {}


@pytest.fixture
def receiver_settings(tmp_path: Path) -> Settings:
    """The settings of `receiver_app`; for others, return `settings_for_test(tmp_path, ...)` in your own fixture."""
    from receiver.testing.application import settings_for_test

    return settings_for_test(tmp_path)


@pytest.fixture
async def receiver_app(
    receiver_router: Router,
    receiver_settings: Settings,
    receiver_clock: SteppedClock,
    receiver_resources: Mapping[Any, object],
    request: pytest.FixtureRequest,
) -> "AsyncIterator[RunningReceiver]":
    """The receiver as an ASGI app, with a store of its own, and a worker that runs the handlers under test."""
    from receiver.testing.application import open_receiver

    emulator: RunningEmulator | None = None
    if "receiver_service" in request.fixturenames:
        emulator = request.getfixturevalue("receiver_service")
    async with open_receiver(
        receiver_router,
        receiver_settings,
        receiver_clock,
        resources=receiver_resources,
        clients=None if emulator is None else emulator.clients,
    ) as app:
        if emulator is not None:
            emulator.reach(app)
        yield app


@pytest.fixture
def receiver_sites() -> "Mapping[str, SiteSource]":
    """The sites that `receiver_emulator` serves: write a fixture of this name that returns them.

    By origin such as `https://docs.acme.test`, a folder (a Path), or a dict of path or URL to HTML.
    """
    return {}


@pytest.fixture
async def receiver_service(
    receiver_sites: "Mapping[str, SiteSource]", receiver_settings: Settings, receiver_clock: SteppedClock
) -> "AsyncIterator[RunningEmulator]":
    """The service alone. Ask for `receiver_emulator`, which also has a receiver to send its events to."""
    require_emulator()
    from receiver.testing.emulating import open_emulator

    secret = next(iter(receiver_settings.plain_secrets()), None)
    async with open_emulator(
        receiver_sites, receiver_clock, secret=secret, webhook_path=receiver_settings.path
    ) as running:
        yield running


@pytest.fixture
def receiver_emulator(receiver_service: "RunningEmulator", receiver_app: "RunningReceiver") -> "RunningEmulator":
    """The service with your sites, and `receiver_app` as its webhook: `await receiver_emulator.crawl(url)`."""
    return receiver_service


@pytest.fixture
async def receiver_sender(
    receiver_router: Router, receiver_app: "RunningReceiver", receiver_clock: SteppedClock
) -> "AsyncIterator[ScheduledSender]":
    """The service: `await receiver_sender.send(sample("crawl.page"))` posts to `receiver_app`, with its retries."""
    from receiver.testing.sender import open_sender

    if receiver_router is _NO_ROUTER:
        pytest.fail(
            "the sender has no handlers to reach: write a fixture `receiver_router` that returns your Router",
            pytrace=False,
        )
    settings = receiver_app.settings
    secret = next(iter(settings.plain_secrets()), None)
    token = (settings.token_header, settings.plain_tokens()[0]) if settings.token_header else None
    async with open_sender(
        receiver_app,
        receiver_clock,
        path=settings.path,
        secret=secret,
        signature_header=settings.signature_header,
        token=token,
    ) as opened:
        yield opened


@pytest.fixture
def receiver_work_items(receiver_app: "RunningReceiver") -> Callable[..., Awaitable[list[Work]]]:
    """The work items of `receiver_app`: `assert_handled(await receiver_work_items())`."""
    return receiver_app.work_items


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Let pytest-asyncio run our async fixtures in its strict mode too, where it runs only fixtures with its mark.

    For tests that anyio's plugin runs, nothing is changed.
    """
    function: Any = fixturedef.func
    if function.__module__ == __name__ and inspect.isasyncgenfunction(function):
        function._force_asyncio_fixture = "anyio_backend" not in request.fixturenames
    return (yield)
