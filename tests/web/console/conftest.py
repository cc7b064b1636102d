import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.clock import VirtualClock
from receiver.core.ports.store import Store
from receiver.stores.postgres.store import PostgresStore
from receiver.stores.sqlite.store import SqliteStore
from receiver.web.console.app import ConsoleApp
from receiver.web.console.parts import ConsoleOptions
from tests.doubles import NOON, OpenStore
from tests.stores.opened import Opened
from tests.web.console.browsing import Browser

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> VirtualClock:
    """The time of the console."""
    return VirtualClock(NOON + HOUR)


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each kind of store, empty."""
    match request.param:
        case "memory":
            return OpenStore()
        case "sqlite":
            return SqliteStore(f"sqlite:///{tmp_path / 'receiver.db'}")
        case _:
            # However busy the machine is: some of the bodies are long.
            url = request.getfixturevalue("empty_postgres_url")
            return PostgresStore(url, append_deadline=timedelta(minutes=5))


@pytest.fixture
async def opened(store: Store) -> AsyncIterator[Opened]:
    """The store with its faces open."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        yield Opened(
            await enter(store.log()),
            await enter(store.queue()),
            await enter(store.queue()),
            await enter(store.controls()),
            await enter(store.reports()),
            await enter(store.maintenance()),
        )


MakeBrowser = Callable[..., Browser]


@pytest.fixture
async def browse(store: Store, clock: VirtualClock) -> AsyncIterator[MakeBrowser]:
    """Makes a console with these options, and returns a browser for it."""
    made: list[ConsoleApp] = []

    def make(base: str = "http://127.0.0.1:8001", **options: object) -> Browser:
        made.append(ConsoleApp(store, clock, ConsoleOptions(version="1", **options)))  # type: ignore[arg-type]
        return Browser(made[-1], base)

    yield make
    for one in made:
        async with one.lifespan():
            await asyncio.sleep(0)


@pytest.fixture
def browser(browse: MakeBrowser) -> Browser:
    """A browser for a console with the default options."""
    return browse()
