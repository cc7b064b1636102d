"""Browser sessions, by the service's own SDK: code, connections, time, credits, and what code cannot reach."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from firecrawl.v2.utils.error_handler import BadRequestError, FirecrawlError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from receiver.core.clock import VirtualClock
from receiver.emulator.browser.confinement import can_shut_in
from tests.doubles import LONG, eventually, soon
from tests.emulator import schemas
from tests.emulator.answering import hold
from tests.emulator.browser.app_site import APP, PAGES, rendered_site, with_browser
from tests.emulator.shop import Shop, shop

async_api = pytest.importorskip("playwright.async_api", reason="the extra `browser` is not installed")
with_code = pytest.mark.skipif(not can_shut_in(), reason="this system cannot shut code in: it has no Landlock")
pytestmark = with_browser


@asynccontextmanager
async def app_shop(**options: Any) -> AsyncIterator[Shop]:
    """Serve an emulator of the site whose pages build themselves."""
    async with shop(sites={APP: PAGES}, browser_sandbox=False, **options) as made:
        yield made


@with_code
async def test_the_sdk_opens_a_session_runs_code_and_ends_it() -> None:
    """In all three languages, on one page that stays."""
    async with app_shop() as one:
        session = await one.call("browser", ttl=120, activity_ttl=60, stream_web_view=False)
        node = await one.call(
            "browser_execute",
            session.id,
            f"await page.goto('{APP}/');\nawait page.waitForSelector('.item');\nconsole.log('seen');\n"
            "await page.locator('.item').allTextContents()",
            language="node",
        )
        python = await one.call(
            "browser_execute",
            session.id,
            "await page.click('#next')\nprint(await page.title())\n[page.url, 1]",
            language="python",
        )
        bash = await one.call(
            "browser_execute",
            session.id,
            f"agent-browser open {APP}/ && agent-browser wait .item && agent-browser snapshot",
        )
        listed = await one.call("list_browsers", status="active")
        ended = await one.call("delete_browser", session.id)
        gone = await one.call("list_browsers", status="destroyed")

    assert session.success
    assert session.expires_at
    assert (node.success, node.stdout, node.result) == (True, "seen\n", '["City bike","Race bike"]')
    assert (python.exit_code, python.stdout, python.result) == (0, "Next\n", f'["{APP}/next", 1]')
    assert '- button "Add" [ref=e3]' in bash.stdout
    assert [(item.id, item.status, item.stream_web_view) for item in listed.sessions] == [
        (session.id, "active", False)
    ]
    assert (ended.success, ended.credits_billed) == (True, 2)
    assert [item.id for item in gone.sessions] == [session.id]


@with_code
async def test_code_on_the_page_of_a_scrape() -> None:
    """The first call opens a session, the next one finds it as it was left; a model is needed for a prompt."""
    async with app_shop() as one:
        page = await one.call("scrape", f"{APP}/next")
        scrape_id = page.metadata.scrape_id
        first = await one.call("interact", scrape_id, "document = 1; await page.evaluate('window.kept = 7')")
        second = await one.call("interact", scrape_id, "await page.evaluate('window.kept')")
        with pytest.raises(BadRequestError, match="--model-url"):
            await one.call("interact", scrape_id, prompt="Click the button")
        with pytest.raises(FirecrawlError, match="Job not found"):
            await one.call("interact", "019b796d-d600-7d8e-91b7-584a2265b1f5", "1")
        stopped = await one.call("stop_interaction", scrape_id)
        with pytest.raises(FirecrawlError, match="not found"):
            await one.call("stop_interaction", scrape_id)

    assert (first.success, second.result) == (True, "7")
    assert first.cdp_url == second.cdp_url
    assert (stopped.success, stopped.credits_billed) == (True, 2)


@with_code
async def test_code_that_fails_is_told() -> None:
    """An exception, an exit code, and too much time or output."""
    async with rendered_site() as site:
        session = (await site.post("/v2/browser")).json()["id"]

        async def run(code: str, **more: Any) -> dict[str, Any]:
            answer = await site.post(f"/v2/browser/{session}/execute", code=code, **{"timeout": LONG} | more)
            found: dict[str, Any] = answer.json()
            return found

        raised = await run("raise ValueError('on purpose')", language="python")
        thrown = await run("throw new TypeError('on purpose')", language="node")
        failed = await run("echo out; echo err >&2; exit 7", language="bash")
        endless = await run("sleep 60 & sleep 60", language="bash", timeout=1)
        much = await run("head -c 3000000 /dev/zero | tr '\\0' x", language="bash")

    assert raised["stderr"] == (
        'Traceback (most recent call last):\n  File "<code>", line 1, in <module>\n'
        "    raise ValueError('on purpose')\nValueError: on purpose\n"
    )
    assert (raised["success"], raised["exitCode"], raised["error"]) == (False, 1, "ValueError: on purpose")
    assert (thrown["success"], thrown["error"]) == (False, "TypeError: on purpose")
    assert (failed["exitCode"], failed["stdout"], failed["stderr"]) == (7, "out\n", "err\n")
    assert (endless["killed"], endless["exitCode"], endless["success"]) == (True, 137, False)
    assert (len(much["stdout"]), much["truncated"]) == (1 << 20, True)


SHUT_IN = """
import os, signal, socket
from pathlib import Path

def tried(name, work):
    try:
        work()
    except OSError as exc:
        print(name, "refused", type(exc).__name__)
    else:
        print(name, "REACHED")

tried("secret", lambda: Path("SECRET").read_text())
tried("link", lambda: os.link("SECRET", "linked"))
tried("write", lambda: Path("FOLDER", "made").write_text("x"))
tried("connect", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
tried("listen", lambda: socket.create_server(("127.0.0.1", 0)))
tried("signal", lambda: os.kill(EMULATOR, 0))
tried("processes", lambda: os.listdir("/proc"))
os.symlink("SECRET", "result")
"""


@with_code
async def test_code_is_shut_in(tmp_path: Path) -> None:
    """It reads no files of people, writes and connects nowhere else, and stops no other process."""
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret of a person")
    async with app_shop() as one:
        code = SHUT_IN.replace("SECRET", str(secret)).replace("FOLDER", str(tmp_path))
        code = code.replace("PORT", one.address.rpartition(":")[2]).replace("EMULATOR", str(os.getpid()))
        session = await one.call("browser")
        told = await one.call("browser_execute", session.id, code, language="python")
        shown = await one.call(
            "browser_execute",
            session.id,
            f"try:\n    await page.goto('file://{secret}')\nexcept Exception as exc:\n    print('refused')\n"
            "print(await page.content())",
            language="python",
        )

    lines = [line.split(" ")[:2] for line in told.stdout.splitlines()]
    names = ["secret", "link", "write", "connect", "listen", "signal", "processes"]
    assert lines == [[name, "refused"] for name in names], told
    assert "a secret of a person" not in f"{told}{shown}"
    assert "refused" in shown.stdout


async def test_programs_connect_to_a_session_by_its_address() -> None:
    """With its token alone; the pages that they open come from the emulator, too."""
    async with app_shop() as one:
        session = await one.call("browser")
        async with async_api.async_playwright() as driver:
            browser = await driver.chromium.connect_over_cdp(session.cdp_url)
            page = browser.contexts[0].pages[0]
            await page.goto(f"{APP}/next")
            title = await page.title()
            with pytest.raises(Exception, match="ERR_BLOCKED_BY_CLIENT"):
                await page.goto("https://example.org/")
            with pytest.raises(Exception, match=r"1008|closed|403"):
                await driver.chromium.connect_over_cdp(session.cdp_url[:-1])
        async with httpx.AsyncClient(timeout=LONG) as http:
            view = await http.get(session.live_view_url)
            other = await http.get(session.live_view_url[:-1])

    assert title == "Next"
    assert (view.status_code, view.content[:4]) == (200, b"\x89PNG")
    assert other.status_code == 404


async def test_sessions_end_by_the_emulators_clock_and_are_charged() -> None:
    """After their time without a call, or their whole time; 2 credits for each minute that has begun."""
    async with rendered_site(clock=VirtualClock(), credits=100) as site:
        quiet = (await site.post("/v2/browser", activityTtl=60, ttl=600)).json()["id"]
        long = (await site.post("/v2/browser", activityTtl=600, ttl=150)).json()["id"]
        await site.emulator.advance(timedelta(seconds=61))
        first = (await site.http.get("/v2/browser")).json()["sessions"]
        await site.emulator.advance(timedelta(seconds=90))
        second = (await site.http.get("/v2/browser")).json()["sessions"]
        gone = await site.post(f"/v2/browser/{long}/execute", code="1")
        left = (await site.http.get("/v2/team/credit-usage")).json()["data"]["remainingCredits"]

    assert [(one["id"], one["status"]) for one in first] == [(long, "active"), (quiet, "destroyed")]
    assert [one["status"] for one in second] == ["destroyed", "destroyed"]
    assert (gone.status_code, left) == (410, 100 - 2 - 6)


@with_code
async def test_answers_have_the_form_of_the_sdk() -> None:
    """Both names of the service lead to the same sessions."""
    async with rendered_site() as site:
        opened = (await site.post("/v2/interact", ttl=60)).json()
        path = f"/v2/browser/{opened['id']}"
        run = (await site.post(f"/v2/interact/{opened['id']}/execute", code="1 + 1", timeout=LONG)).json()
        listed = (await site.http.get("/v2/interact")).json()
        ended = (await site.http.delete(path)).json()

    hold(opened, schemas.SESSION)
    hold(run, schemas.CODE_RUN)
    hold(listed, schemas.SESSIONS)
    hold(ended, schemas.SESSION_ENDED)


async def test_sessions_are_bounded_and_belong_to_a_team() -> None:
    async with rendered_site(browser_pages=1) as site:
        session = (await site.post("/v2/browser", profile={"name": "mine"})).json()
        more = await site.post("/v2/browser")
        other = await site.http.delete(f"/v2/browser/{session['id']}", headers={"Authorization": "Bearer other"})
        bad = [
            (await site.post("/v2/browser", ttl=1)).status_code,
            (await site.post(f"/v2/browser/{session['id']}/execute", code="1", language="perl")).status_code,
            (await site.post(f"/v2/browser/{session['id']}/execute")).status_code,
            (await site.post("/v2/browser/nonsense/execute", code="1")).status_code,
            (await site.http.get("/v2/browser?status=odd")).status_code,
        ]

    assert "warning" not in session
    assert (more.status_code, other.status_code) == (429, 404)
    assert bad == [400, 400, 400, 400, 400]


@with_code
async def test_a_model_follows_a_prompt() -> None:
    """It answers with code, which is run on the page."""
    asked = []

    async def complete(request: Request) -> JSONResponse:
        asked.append(await request.json())
        code = "```python\nprint(await page.title())\n```"
        return JSONResponse({"choices": [{"message": {"content": code}}]})

    server = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])]),
            port=0,
            log_level="critical",
        )
    )
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    try:
        async with app_shop(model_url=url) as one:
            page = await one.call("scrape", f"{APP}/next")
            said = await one.call("interact", page.metadata.scrape_id, prompt="What is the title?")
    finally:
        server.should_exit = True
        await soon(serving)

    assert said.output == "Next"
    assert "What is the title?" in asked[0]["messages"][1]["content"]
    assert "The next page" in asked[0]["messages"][1]["content"]


async def test_without_a_browser_every_call_says_so() -> None:
    async with rendered_site(browser=False) as site:
        answers = [
            await site.post("/v2/browser"),
            await site.http.get("/v2/browser"),
            await site.post("/v2/scrape/019b796d-d600-7d8e-91b7-584a2265b1f5/interact", code="1"),
        ]

    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (400, "SCRAPE_ACTIONS_NOT_SUPPORTED")
    ] * len(answers)
