"""Commands compare stored moments with the clock of the store, whatever the machine's own clock shows."""

import asyncio
from datetime import datetime, timedelta

import pytest

from receiver.console import Console
from receiver.core.clock import SystemClock
from receiver.settings import Settings
from receiver.stores.postgres.store import PostgresStore
from receiver.web.console.store import StoreClock
from tests.cli.copied import invoke
from tests.doubles import appended, delivery, eventually, soon, turns
from tests.stores.outside import PostgresTables

AHEAD = timedelta(hours=5)


@pytest.fixture
def wrong_clock(bare_environment: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is five hours ahead of the database."""
    right = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: right(self) + AHEAD)


async def _fill(url: str) -> None:
    store = PostgresStore(url)
    async with store.clock(SystemClock()) as clock, store.log() as log:
        await soon(appended(log, delivery("a", received_at=clock.now())))


@pytest.mark.usefixtures("wrong_clock")
def test_ages_are_those_by_the_clock_of_the_store(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A delivery of this minute is younger than two hours, and nothing removes it as older."""
    asyncio.run(_fill(postgres_url))
    PostgresTables(postgres_url).run("UPDATE marks SET value = 1 WHERE name = 'routed'")

    assert invoke("events", "list", "--since", "2h", "--json", "--store", postgres_url) == 0
    assert '"id"' in capsys.readouterr().out
    assert invoke("events", "list", "--until", "2h", "--json", "--store", postgres_url) == 0
    assert '"id"' not in capsys.readouterr().out
    assert invoke("quarantine", "list", "--since", "2h", "--store", postgres_url) == 0
    assert invoke("events", "prune", "--older-than", "2h", "--yes", "--store", postgres_url) == 0
    assert "no event matched" in capsys.readouterr().err


@pytest.mark.usefixtures("wrong_clock")
def test_a_replay_records_by_the_clock_of_the_store(postgres_url: str) -> None:
    """Attempts of the future would be the latest of all for hours, and once keys would not lapse in time."""
    asyncio.run(_fill(postgres_url))
    handler = "tests.benchmarks.noop:on_loop"

    assert invoke("replay", "--record", "--yes", "--handlers", handler, "--store", postgres_url) == 0

    [(seconds,)] = PostgresTables(postgres_url).select(
        "SELECT abs(extract(epoch FROM clock_timestamp()) - ended_at / 1e6) FROM attempts"
    )
    assert seconds < AHEAD.total_seconds() / 2


async def test_the_console_has_the_clock_of_the_store(postgres_url: str, wrong_clock: None) -> None:
    """It shows ages, and retries by it."""
    console = Console(Settings(store=postgres_url))
    await _fill(postgres_url)
    async with console.lifespan():
        await eventually(lambda: shown_ahead(console) < AHEAD / 2)


def shown_ahead(console: Console) -> timedelta:
    """Return how far the console's clock is ahead of the right one."""
    clock = console._app.parts.clock
    assert isinstance(clock, StoreClock)
    now: datetime = clock.now()
    return now - (SystemClock().now() - AHEAD)


async def test_the_console_starts_while_no_server_answers(bare_environment: object) -> None:
    """Its pages say why the store cannot be used; until then its time is that of the machine."""
    console = Console(Settings(store="postgresql://127.0.0.1:1/no"))
    async with console.lifespan():
        await turns()

        before = SystemClock().now()
        assert before <= console._app.parts.clock.now() <= SystemClock().now()
