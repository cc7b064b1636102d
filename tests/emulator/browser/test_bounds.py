"""What a page can do to the browser, and through it: hang, crash, eat memory, reach other hosts. And kills."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from receiver.emulator.browser import guard
from receiver.emulator.browser.executable import find_browser
from receiver.emulator.options import EmulatorOptions
from tests.doubles import eventually
from tests.emulator.browser.app_site import APP, RenderedSite, rendered_site, with_browser

pytestmark = [with_browser, pytest.mark.asyncio(loop_scope="module")]
REACHES = """<main id="told"></main><script>
const say = text => { told.innerHTML += `<p>${text}</p>` };
const ask = url => fetch(url, {mode: 'no-cors'}).then(() => say('reached ' + url), () => say('blocked ' + url));
const image = url => new Promise(done => { const one = new Image();
  one.onload = () => done(say('reached ' + url)); one.onerror = () => done(say('blocked ' + url)); one.src = url });
const socket = url => new Promise(done => { const one = new WebSocket(url);
  one.onopen = () => done(say('reached ' + url)); one.onerror = () => done(say('blocked ' + url)) });
const worker = url => new Promise(done => {
  const code = `fetch('${url}', {mode: 'no-cors'})
    .then(() => postMessage('reached'), () => postMessage('blocked'))`;
  const one = new Worker(URL.createObjectURL(new Blob([code])));
  one.onmessage = event => done(say(`${event.data} ${url} from a worker`)) });
Promise.all([URLS]).then(() => { document.body.id = 'done' });
</script>"""
FOLDER = re.compile(rb"--user-data-dir=(\S+)/profile")
DONE = {"type": "wait", "selector": "#done"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[RenderedSite]:
    def answer(request: httpx.Request) -> httpx.Response:
        made.requests.append(request)
        if request.url.path == "/moves":
            return httpx.Response(302, headers={"Location": f"{APP}/next"})
        return answered(b"here")

    async with rendered_site(transport=httpx.MockTransport(answer), browser_memory=700 << 20) as made:
        yield made


def answered(body: bytes) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/html"}, stream=httpx.ByteStream(body))


def processes_below(process: int) -> Iterator[int]:
    yield from guard._below(process)


async def test_a_page_that_hangs_is_an_error_of_that_page(site: RenderedSite) -> None:
    """Others go on, at the same time and after it."""
    hanging, other = await asyncio.gather(
        site.scrape("/hangs", waitFor=500, timeout=4000), site.scrape("/next", waitFor=10)
    )
    after = await site.scrape("/next", waitFor=20)

    assert (hanging["success"], hanging["code"]) == (False, "SCRAPE_TIMEOUT")
    assert other["data"]["markdown"] == after["data"]["markdown"] == "# The next page"


async def test_a_page_that_eats_memory_is_ended(site: RenderedSite) -> None:
    answer = await site.scrape("/eats", waitFor=20_000, timeout=60_000)
    after = await site.scrape("/next", waitFor=30)

    assert (answer["success"], answer["code"]) == (False, "SCRAPE_ALL_ENGINES_FAILED")
    assert "memory" in answer["error"]
    assert after["success"]


async def test_a_browser_that_was_killed_starts_again(site: RenderedSite) -> None:
    assert (await site.scrape("/next", waitFor=40))["success"]
    for process in processes_below(os.getpid()):
        if b"--remote-debugging-pipe" in guard._command_line(process):
            os.kill(process, signal.SIGKILL)

    assert (await site.scrape("/next", waitFor=50))["success"]


async def test_a_page_reaches_given_sites_and_nothing_else(site: RenderedSite) -> None:
    """Neither by scripts nor by pictures, sockets, workers, frames or files."""
    urls = ["https://example.org/", "http://10.0.0.1/", "http://169.254.169.254/", "file:///etc/hostname"]
    calls = [f"ask('{url}')" for url in [*urls, "/next"]]
    calls += [f"image('{url}')" for url in urls]
    calls += ["socket('ws://127.0.0.1:1/')", "worker('https://example.org/')"]
    async with rendered_site(pages={"/reaches": REACHES.replace("URLS", ", ".join(calls))}) as strict:
        document = await strict.document("/reaches", actions=[DONE])
    lines = [line for line in document["markdown"].split("\n\n") if line]

    assert len(lines) == len(calls)
    assert [line for line in lines if line.startswith("reached")] == ["reached /next"]


@pytest.mark.parametrize(
    "script",
    [
        "location.href = 'file:///etc/passwd'",
        "location.href = 'https://example.org/'",
        "open('file:///etc/passwd')",
    ],
)
async def test_a_script_leads_the_page_nowhere_else(script: str) -> None:
    async with rendered_site() as strict:
        steps = [
            {"type": "executeJavascript", "script": script},
            {"type": "wait", "milliseconds": 300},
            {"type": "scrape"},
        ]
        answer = await strict.scrape("/next", actions=steps)

    assert "root:" not in str(answer)
    assert "Example Domain" not in str(answer)


async def test_requests_of_a_page_keep_their_method_body_and_origin(site: RenderedSite) -> None:
    """A server tells from the origin that a page calls, and not a program."""
    page = """<h1 id="told"></h1><script>fetch('http://127.0.0.1:9/api', {method: 'POST', mode: 'no-cors',
    body: 'q=1'}).then(() => { document.body.id = 'done' })</script>"""
    async with rendered_site(pages={"/posts": page}, transport=site.emulator._transport) as posting:
        await posting.document("/posts", actions=[DONE], headers={"Authorization": "Bearer secret"})
    request = next(one for one in site.requests if one.url.path == "/api")

    assert (request.method, request.content) == ("POST", b"q=1")
    assert request.headers["origin"] == APP
    assert "authorization" not in request.headers


async def test_headers_of_the_caller_go_to_their_site_alone(site: RenderedSite) -> None:
    page = b"<img src='http://127.0.0.1:9/other.png'><h1>Headers</h1>"

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.path == "/start":
            return httpx.Response(302, headers=[("Location", "/page"), ("Set-Cookie", "own=1; Path=/")])
        return answered(page)

    seen: list[httpx.Request] = []
    async with rendered_site(transport=httpx.MockTransport(answer)) as asking:
        headers = {"X-Key": "secret", "Cookie": "theirs=2", "User-Agent": "Own/1"}
        await asking.document("http://127.0.0.1:8/start", waitFor=10, headers=headers)
    sent = {one.url.path: one.headers for one in seen}

    assert (sent["/page"]["x-key"], sent["/page"]["user-agent"]) == ("secret", "Own/1")
    assert sorted(sent["/page"]["cookie"].split("; ")) == ["own=1", "theirs=2"]
    assert "x-key" not in sent["/other.png"]


async def test_a_page_that_is_too_large_is_refused() -> None:
    """As sent, and as scripts have made it."""
    grows = "<h1>Grows</h1><script>document.body.append('x'.repeat(300000))</script>"
    async with rendered_site(
        pages={"/big": "<p>" + "x" * 300_000, "/grows": grows}, max_page_bytes=200_000
    ) as small:
        sent, grown = [await small.scrape(path, waitFor=10) for path in ("/big", "/grows")]

    assert "ERR_FILE_TOO_BIG" in sent["error"]
    assert "ERR_FILE_TOO_BIG" in grown["error"]


PROGRAM = """
import asyncio, sys
from tests.emulator.browser.app_site import rendered_site

async def main():
    async with rendered_site() as site:
        assert (await site.scrape("/next", waitFor=10))["success"]
        print("ready", flush=True)
        await site.scrape("/hangs", waitFor=20000, timeout=60000)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_no_process_is_left_after_the_emulator_was_killed(how: signal.Signals) -> None:
    """Nor a folder, although a page hangs just then."""
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert await program.stdout.readline() == b"ready\n"
    below = list(processes_below(program.pid))
    folders = {folder for process in below for folder in FOLDER.findall(guard._command_line(process))}
    program.send_signal(how)
    await program.wait()

    assert len(below) > 3
    await eventually(lambda: not any(map(_lives, below)))
    assert len(folders) == 1
    await eventually(lambda: not any(Path(folder.decode()).exists() for folder in folders))


def _lives(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"browser": False}, "--no-browser"),
        ({"chromium": Path("/nowhere/chromium")}, "apt install chromium"),
    ],
)
async def test_without_a_browser_the_reason_is_told(options: dict[str, Any], told: str) -> None:
    """Actions are refused, and a picture is missing with a warning."""
    found = find_browser(EmulatorOptions(**options))
    async with rendered_site(**options) as plain:
        acting = await plain.post("/v2/scrape", url=APP, actions=[{"type": "scrape"}])
        pictured = await plain.document(formats=["markdown", "screenshot"], waitFor=10)

    assert found.executable is None
    assert told in found.text
    assert (acting.status_code, acting.json()["code"]) == (400, "SCRAPE_ACTIONS_NOT_SUPPORTED")
    assert (pictured["screenshot"], pictured["markdown"]) == (None, "loading")
    assert "waitFor" in pictured["warning"]
    assert "screenshot needs a browser" in pictured["warning"]
