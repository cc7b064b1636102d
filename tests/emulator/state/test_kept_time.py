"""The emulator's time over a restart."""

from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from receiver.core.clock import VirtualClock
from receiver.emulator.app import Emulator
from receiver.emulator.options import EmulatorOptions
from receiver.emulator.state import database
from receiver.emulator.state.database import StateDatabase
from tests.doubles import soon
from tests.emulator.api.calling import BASE, KEY

DAY = timedelta(days=1)


async def test_a_restart_does_not_go_back_in_time(tmp_path: Path) -> None:
    """The clock was advanced by a day; the emulator was away for an hour of real time."""
    options, real = EmulatorOptions(state=tmp_path / "emulator.db"), VirtualClock()
    first = Emulator(options, clock=real)
    async with first.lifespan():
        await soon(first.advance(DAY))
    ended = first.clock.now()
    real.advance(timedelta(hours=1))
    second = Emulator(options, clock=real)
    async with second.lifespan():
        assert second.clock.now() == ended + timedelta(hours=1)


async def test_the_admin_api_moves_the_clock_for_good(tmp_path: Path) -> None:
    """Also through a reset, which forgets everything else."""
    options, real = EmulatorOptions(state=tmp_path / "emulator.db"), VirtualClock()
    for count in (1, 2):
        emulator = Emulator(options, clock=real)
        transport = httpx.ASGITransport(emulator, client=("127.0.0.1", 1))
        async with (
            emulator.lifespan(),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=KEY) as client,
        ):
            moved = await soon(client.post("/_emulator/clock", json={"advance": "1d"}))
            assert moved.status_code == 200, moved.text
            assert (await client.post("/_emulator/reset")).status_code == 200
            assert emulator.clock.now() - real.now() == count * DAY


async def test_a_faster_clock_is_kept_with_what_happened_at_its_time(tmp_path: Path) -> None:
    """Nobody had the time to keep anything at the end, as after a kill -9: the last write has it."""
    file, real = tmp_path / "emulator.db", VirtualClock()
    options = EmulatorOptions(state=file, speed=60, sites={"https://site.test": {"/": "<p>text</p>"}})
    fast = Emulator(options, clock=real)
    async with fast.lifespan():
        real.advance(timedelta(minutes=1))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(fast), base_url=BASE, headers=KEY) as client:
            assert (await client.post("/v2/scrape", json={"url": "https://site.test"})).status_code == 200
    async with StateDatabase(file, (database.SCHEMA,)) as state:
        micros = await state.run(lambda c: c.execute("SELECT micros FROM clock_ahead").fetchone()[0])
    assert timedelta(microseconds=micros) == timedelta(minutes=59)


@pytest.mark.parametrize("speed", [1, 0.5])
async def test_a_clock_that_is_not_ahead_is_not_kept(tmp_path: Path, speed: float) -> None:
    """The state of an emulator without any haste has no trace of it."""
    file, real = tmp_path / "emulator.db", VirtualClock()
    emulator = Emulator(EmulatorOptions(state=file, speed=speed, seed=1), clock=real)
    async with emulator.lifespan():
        real.advance(DAY)
        await emulator.clock.advance(timedelta(0))
    async with StateDatabase(file, (database.SCHEMA,)) as state:
        assert await state.run(lambda c: c.execute("SELECT * FROM clock_ahead").fetchall()) == []
