"""A site whose pages build themselves with scripts, and an emulator that renders them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from receiver.core.clock import Clock
from receiver.emulator.app import Emulator
from receiver.emulator.browser.executable import find_browser
from receiver.emulator.options import EmulatorOptions
from tests.doubles import LONG

APP = "https://app.test"
OTHER = "https://other.test"
FOUND = find_browser(EmulatorOptions(browser_sandbox=False))
with_browser = pytest.mark.skipif(FOUND.executable is None, reason=f"the browser {FOUND.text}")
"""Marks tests that need Chromium: elsewhere they are skipped, and the reason is shown."""

SHOP = """<!doctype html><html lang="en"><head><title>Shop</title></head><body><main id="app">loading</main><script>
setTimeout(async () => {
  const {title, items} = await (await fetch('/items.json')).json();
  document.querySelector('#app').innerHTML = `<h1>${title}</h1><input id="q"><button id="add">Add</button>
    <ul>${items.map(one => `<li class="item">${one}</li>`).join('')}</ul><a href="/next" id="next">Next</a>`;
  document.querySelector('#add').onclick = () => {
    const one = document.createElement('li');
    one.textContent = document.querySelector('#q').value;
    document.querySelector('ul').append(one);
  };
}, 100);
</script></body></html>"""
KEYS = """<main><input id="a"><p id="told">nothing</p><div id="box" style="height:50px;overflow:auto">
<div style="height:900px">tall</div></div><div style="height:5000px"></div></main><script>
addEventListener('keydown', event => { told.textContent = event.key });
addEventListener('click', event => { event.target.dataset.clicked = '1' });
</script><button class="many">1</button><button class="many">2</button><button hidden id="hidden">3</button>"""
SEEN = """<meta name="viewport" content="width=device-width"><main id="seen"></main><script>
const parts = [innerWidth, navigator.language, navigator.languages.join(), navigator.userAgent,
  Intl.DateTimeFormat().resolvedOptions().timeZone, matchMedia('(pointer: coarse)').matches];
seen.innerHTML = parts.map(one => `<p>${one}</p>`).join('');
</script>"""
PAGES: dict[str, str | bytes] = {
    "/": SHOP,
    "/items.json": '{"title": "Bikes", "items": ["City bike", "Race bike"]}',
    "/next": "<title>Next</title><main><h1>The next page</h1></main>",
    "/keys": KEYS,
    "/seen": SEEN,
    "/hangs": "<h1>Hangs</h1><script>setTimeout(() => { while (true); }, 50)</script>",
    "/eats": "<h1>Eats</h1><script>const all = []; setInterval(() => { "
    "for (let n = 0; n < 20; n++) all.push(new Uint8Array(8e6).fill(7)) }, 5)</script>",
    "/data.json": '{"a": 1}',
    "/file.bin": b"PK\x03\x04" + bytes(100),
    "/_redirects": "/old /next 302\n/away https://other.test/page 302\n/loop /loop 302\n",
    "/404.html": "<title>Gone</title><h1 id='gone'>loading</h1><script>gone.textContent = 'Not here'</script>",
    "/tall": "<title>Tall</title><body style='margin:0'><div style='height:40000px;background:red'></div>",
}
OTHER_PAGES: dict[str, str | bytes] = {
    "/page": "<title>Other</title><main><h1>Another site</h1></main>",
}


@dataclass
class RenderedSite:
    """An emulator of the site, and a caller of it."""

    emulator: Emulator
    http: httpx.AsyncClient
    requests: list[httpx.Request] = field(default_factory=list)
    """What left the emulator for hosts that are no given sites."""

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(path, json=body)

    async def scrape(self, path: str = "/", **body: Any) -> dict[str, Any]:
        """Return the answer to a scrape of a page of the site."""
        url = path if "://" in path else f"{APP}{path}"
        answer = await self.post("/v2/scrape", **{"url": url, "timeout": 1000 * LONG} | body)
        found: dict[str, Any] = answer.json()
        return found

    async def document(self, path: str = "/", **body: Any) -> dict[str, Any]:
        """Return the document of a scrape that has to succeed."""
        answer = await self.scrape(path, **body)
        assert answer["success"], answer
        found: dict[str, Any] = answer["data"]
        return found


@asynccontextmanager
async def rendered_site(
    *,
    pages: Mapping[str, str | bytes] | None = None,
    more_sites: Mapping[str, Mapping[str, str]] | None = None,
    clock: Clock | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    **options: Any,
) -> AsyncIterator[RenderedSite]:
    """Open an emulator of the site. Without a transport, what it fetches elsewhere goes over the network."""
    sites = {APP: PAGES | dict(pages or {}), OTHER: OTHER_PAGES, **(more_sites or {})}
    given: dict[str, Any] = {"sites": sites, "bundled_site": False, "browser_sandbox": False}
    emulator = Emulator(EmulatorOptions(**(given | options)), clock=clock, transport=transport)
    async with (
        emulator.lifespan(),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(emulator),
            base_url="http://emulator.test",
            headers={"Authorization": "Bearer fc-any"},
            timeout=LONG,
        ) as http,
    ):
        yield RenderedSite(emulator, http)
