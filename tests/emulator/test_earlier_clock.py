"""A state that was written while the clock was ahead of the machine."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from receiver.core.clock import VirtualClock
from receiver.emulator.app import Emulator
from receiver.emulator.options import EmulatorOptions

SHOP = "https://shop.example"


async def scraped(emulator: Emulator, **options: Any) -> dict[str, Any]:
    transport = httpx.ASGITransport(emulator)
    headers = {"Authorization": "Bearer fc-any"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        answer = await client.post("/v2/scrape", json={"url": f"{SHOP}/", **options})
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_pages_are_compared_and_cached_as_before(tmp_path: Path) -> None:
    """The emulator goes on with its own time, and its scrapes are in the past."""
    pages: dict[str, str | bytes] = {"/": "<p>one</p>"}
    options = EmulatorOptions(sites={SHOP: pages}, bundled_site=False, state=tmp_path / "state.db")
    tracking = {"formats": ["markdown", "changeTracking"], "maxAge": 0}
    ahead = Emulator(options, clock=VirtualClock())
    async with ahead.lifespan():
        await ahead.advance(timedelta(days=365))
        await scraped(ahead, **tracking)
    clock = VirtualClock()
    back = Emulator(options, clock=clock)
    async with back.lifespan():
        hit = await scraped(back, maxAge=60_000)
        pages["/"] = "<p>two</p>"
        clock.advance(timedelta(minutes=5))
        found = [(await scraped(back, **tracking))["changeTracking"] for _ in range(2)]

    assert hit["metadata"]["cacheState"] == "hit"
    assert [one["changeStatus"] for one in found] == ["changed", "same"]
    assert found[1]["previousScrapeAt"] == "2027-01-01T12:05:00.000Z"
