"""`receiver emulate` and `receiver emulate journal`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from receiver.cli.emulate.command import emulate
from receiver.cli.emulate.serving import serve_emulator, start_lines
from receiver.cli.main import receiver, run
from receiver.emulator.options import EmulatorOptions
from receiver.errors import ConfigurationError
from receiver.service.extras import EMULATOR_MODULES, require_emulator
from tests.cases import for_each
from tests.doubles import LONG, eventually

URL = "http://127.0.0.1:3002"


def invoke(*args: str) -> int:
    return run(receiver.main, ["emulate", *args])


@asynccontextmanager
async def served(
    options: EmulatorOptions, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[tuple[str, "asyncio.Task[int]"]]:
    """Serve an emulator on a free port, and stop it as a signal does."""
    serving = asyncio.create_task(serve_emulator(options, "127.0.0.1", 0))
    shown: list[str] = []

    def listens() -> bool:
        if serving.done():
            serving.result()
        shown.append(capsys.readouterr().out)
        return "start crawl" in "".join(shown)

    await eventually(listens)
    url = "".join(shown).split()[4].rstrip(".")
    try:
        yield url, serving
    finally:
        if not serving.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await serving


async def test_it_serves_until_a_signal_and_tells_its_journal(capsys: pytest.CaptureFixture[str]) -> None:
    """Over a real socket; the journal lists what was asked, as a table and as JSON."""
    async with served(EmulatorOptions(), capsys) as (url, serving):
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": "Bearer k"}, timeout=LONG) as client:
            assert (await client.get("/v2/team/queue-status")).status_code == 200
            assert (await client.get("/v2/nowhere")).status_code == 404
        assert await asyncio.to_thread(invoke, "journal", "--url", url) == 0
        table = capsys.readouterr().out
        assert await asyncio.to_thread(invoke, "journal", "--url", url, "--json", "--limit", "1") == 0
        newest = json.loads(capsys.readouterr().out)
        assert await asyncio.to_thread(invoke, "journal", "--url", url, "--limit", "1") == 0
        cut = capsys.readouterr()
        assert await asyncio.to_thread(invoke, "journal", "--url", url, "--limit", "0") == 2
        assert "--limit" in capsys.readouterr().err
        assert await asyncio.to_thread(invoke, "journal", "--url", url, "--path", "/v2/team", "--json") == 0
        chosen = json.loads(capsys.readouterr().out)
        assert await asyncio.to_thread(invoke, "journal", "--url", url, "--deliveries") == 0
        remark = capsys.readouterr().err

    assert serving.result() == 0
    assert "The emulator has stopped." in capsys.readouterr().out
    assert [line.split()[2:4] for line in table.splitlines()[1:]] == [["GET", "404"], ["GET", "200"]]
    assert (newest["path"], chosen["path"]) == ("/v2/nowhere", "/v2/team/queue-status")
    assert remark == "the journal has no webhook\n"
    assert len(cut.out.splitlines()) == 2
    assert cut.err == ""


async def test_a_socket_of_a_browser_is_closed_and_does_not_hold_the_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Watchers have their own tests; this path has none."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    async with served(EmulatorOptions(), capsys) as (url, _):
        with pytest.raises(WebSocketException):
            async with connect(url.replace("http", "ws") + "/v2/nowhere/1"):
                pass


@for_each(
    ("options", "shown"),
    [
        (EmulatorOptions(), ["any passes", "in memory", "not fetched", "without signature", "rules"]),
        (
            EmulatorOptions(keys=("fc-s3cret",), webhook_secret="s3cret", model_key="s3cret", model_url="http://m"),
            ["1 given", "with signature", "RECEIVER_API_KEY=YOUR_KEY", "gpt-4o-mini"],
        ),
        (EmulatorOptions(sites={"https://docs.acme.test": Path("public")}), ["https://docs.acme.test from public"]),
        (EmulatorOptions(sites={"https://a.test": {}}), ["https://a.test"]),
        (EmulatorOptions(state=Path("emulator.db")), ["emulator.db"]),
        (EmulatorOptions(allow_internet=True, allow_private=True), ["fetched, too", "networks are fetched"]),
        (EmulatorOptions(speed=60, page_delay=timedelta(seconds=2)), ["60 times as fast", "take 2s each"]),
        (EmulatorOptions(plan="free", open_access=True), ["plan free", "without one"]),
        (EmulatorOptions(bundled_site=False), ["start crawl http://127.0.0.1"]),
    ],
)
def test_the_start_says_what_is_allowed(options: EmulatorOptions, shown: list[str]) -> None:
    """In 80 columns, and without a secret."""
    lines = list(start_lines(options, URL))

    assert [text for text in shown if text not in "\n".join(lines)] == []
    assert "s3cret" not in "\n".join(lines)
    assert [line for line in lines if len(line) > 80] == []
    assert not any("WARNING" in line for line in lines)


def test_an_open_emulator_is_warned_of() -> None:
    """Other machines reach it, and nobody needs a key."""
    lines = "\n".join(start_lines(EmulatorOptions(), "http://0.0.0.0:3002"))

    assert "WARNING" in lines
    assert "WARNING" not in "\n".join(start_lines(EmulatorOptions(keys=("k",)), "http://0.0.0.0:3002"))


@for_each(
    ("args", "reason"),
    [
        (["--site", "x"], "ORIGIN=DIR"),
        (["--site", "https://a.test="], "ORIGIN=DIR"),
        (["--site", "a.test=."], "no origin"),
        (["--site", "file:///etc=."], "no origin"),
        (["--site", "https://a.test/path=."], "no origin"),
        (["--site", "https://user@a.test=."], "no origin"),
        (["--site", "https://a.test:0=."], "no origin"),
        (["--site", "https://[=."], "no origin"),
        (["--site", "https://a.test=nowhere"], "no folder"),
        (["--page-delay", "5"], "a duration is"),
        (["--speed", "0"], "--speed"),
        (["--plan", "huge"], "--plan"),
        (["--credits", "-1"], "--credits"),
        (["--port", "70000"], "--port"),
        (["--threat-protection", "maybe"], "--threat-protection"),
        (["journal", "--path", "/v2", "--deliveries"], "--path"),
        (["journal", "--job", "5"], "--job"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_use_ends_with_2(args: list[str], reason: str) -> None:
    """And says which option is wrong."""
    from click.testing import CliRunner

    result = CliRunner().invoke(receiver, ["emulate", *args])

    assert result.exit_code == 2
    assert reason in result.output


def test_a_state_that_cannot_be_used_ends_with_2(tmp_path: Path) -> None:
    """It names the file."""
    (tmp_path / "notes.txt").write_text("no database, and long enough to be seen as none")

    # The command sets up the log of its process, so it has one of its own.
    program = [sys.executable, "-m", "receiver", "emulate", "--port", "0", "--state", str(tmp_path / "notes.txt")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=LONG)

    assert done.returncode == 2
    assert "notes.txt: file is not a database" in done.stderr


@for_each("module", EMULATOR_MODULES)
def test_without_the_extra_it_says_how_to_install_it(module: str) -> None:
    """In one line, whichever package is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module, None)
        with pytest.raises(ConfigurationError) as caught:
            require_emulator()

    assert str(caught.value) == (
        "the emulator needs packages that are not installed: pip install 'crawl-receiver[emulator]'"
    )


def test_all_modules_of_the_extra_are_looked_for() -> None:
    """One for each package that it names."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

    assert len(project["optional-dependencies"]["emulator"]) == len(EMULATOR_MODULES)
    require_emulator()


def test_the_journal_says_when_no_emulator_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """Also for an address that is none."""
    assert invoke("journal", "--url", "http://127.0.0.1:1") == 1
    assert "start `receiver emulate`, or name its address with --url" in capsys.readouterr().err
    assert invoke("journal", "--url", "nonsense") == 1
    assert "no emulator answers at nonsense" in capsys.readouterr().err


def test_every_option_of_an_emulator_can_be_given() -> None:
    """Only sizes have no flag."""
    names: dict[str, Any] = {
        "host": None,
        "port": None,
    }
    given = {
        names.get(str(option.name), option.name) for option in emulate.params if isinstance(option, click.Option)
    }

    assert {field.name for field in fields(EmulatorOptions)} - given == {"browser_memory", "max_page_bytes"}
