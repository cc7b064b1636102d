"""The plugin in test runs of other projects: what runs its async fixtures, and what it costs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles import LONG
from tests.test_layers import imported

CONFTEST = 'pytest_plugins = ["receiver.testing"]\n'
HANDLERS = """
import pytest
from freezegun import freeze_time
from receiver import Router
from receiver.testing import assert_handled, deliver, sample

@pytest.fixture
def router():
    router = Router()
    router.add(lambda event: event.type, "crawl.page", name="keep")
    return router

def test_plain(router):
    assert_handled(deliver(sample("crawl.page"), router))

@freeze_time("2026-08-04")
def test_plain_in_frozen_time(router):
    assert_handled(deliver(sample("crawl.page"), router))
"""
ASYNC = """
import asyncio

{mark}
async def test_sent(sender, work_items, clock):
    with sender.outage():
        await sender.send(sample("crawl.page"))
    await clock.advance(minutes=1)
    assert len(sender.attempts) == 2
    assert_handled(await work_items(), "keep", times=1)
    assert asyncio.get_running_loop()
"""
BY_ANYIO = """
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


def run_pytest(folder: Path, conftest: str, tests: str, *options: str) -> str:
    """Run tests in a folder of their own with the plugins that are installed; return what pytest says."""
    folder.joinpath("conftest.py").write_text(conftest, encoding="utf-8")
    folder.joinpath("test_own.py").write_text(tests, encoding="utf-8")
    scope = "" if "no:asyncio" in options else "asyncio_default_fixture_loop_scope = function\n"
    folder.joinpath("pytest.ini").write_text(f"[pytest]\nfilterwarnings = error\n{scope}", encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3 * LONG, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("mark", "extra", "options"),
    [
        ("@pytest.mark.asyncio", "", ["-o", "asyncio_mode=strict", "-p", "no:anyio"]),
        ("@pytest.mark.asyncio", "", ["-o", "asyncio_mode=strict"]),
        ("", "", ["-o", "asyncio_mode=auto"]),
        ("@pytest.mark.anyio", BY_ANYIO, ["-p", "no:asyncio"]),
        ("@pytest.mark.anyio", BY_ANYIO, ["-o", "asyncio_mode=strict"]),
    ],
    ids=["asyncio alone", "asyncio, strict", "asyncio, auto", "anyio alone", "anyio beside asyncio"],
)
def test_whatever_runs_the_tests_runs_the_fixtures(
    tmp_path: Path, mark: str, extra: str, options: list[str]
) -> None:
    """In the event loop of the test; with warnings as errors."""
    said = run_pytest(tmp_path, CONFTEST, HANDLERS + extra + ASYNC.format(mark=mark), *options)

    assert re.search(r"\b3 passed in", said), said


def test_plain_tests_need_no_plugin_for_async_ones(tmp_path: Path) -> None:
    """Nor ours, as long as they want no fixture."""
    said = run_pytest(tmp_path, "", HANDLERS, "-p", "no:asyncio", "-p", "no:anyio")

    assert re.search(r"\b2 passed in", said), said


def test_the_fixtures_are_documented(tmp_path: Path) -> None:
    """In `pytest --fixtures`."""
    said = run_pytest(tmp_path, CONFTEST, "", "--fixtures", "-p", "no:asyncio")

    listed = said.partition("fixtures defined from receiver.testing.fixtures")[2]
    for name in ("clock", "router", "resources", "receiver_settings", "receiver_app", "sender", "work_items"):
        assert re.search(rf"^{name}\b.*\n    \w", listed, re.MULTILINE), name


def test_a_failure_of_a_handler_shows_its_line(tmp_path: Path) -> None:
    """Between the test's own line and the error there is nothing to read of a worker's attempts."""
    failing = HANDLERS.replace("lambda event: event.type", "fails") + (
        "\ndef fails(event):\n    raise ValueError('price of the gear')\n"
    )

    said = run_pytest(tmp_path, CONFTEST, failing, "-k", "test_plain and not frozen")

    assert ">       assert_handled(deliver(sample" in said or ">   assert_handled(deliver(sample" in said, said
    assert re.search(r">\s+raise ValueError\('price of the gear'\)", said), said


def test_installation_alone_registers_nothing(tmp_path: Path) -> None:
    """A test run that does not ask for the plugin imports nothing of the package."""
    said = run_pytest(
        tmp_path, "", "import sys\n\ndef test_it():\n    assert not [n for n in sys.modules if 'receiver' in n]\n"
    )

    assert re.search(r"\b1 passed in", said), said


def test_coverage_has_begun_before_anything_is_imported(tmp_path: Path) -> None:
    """The plugin is loaded with the conftest, after the hook in which pytest-cov starts, and not before."""
    early = "import sys\n\ndef pytest_load_initial_conftests():\n    assert 'receiver' not in sys.modules\n"
    tmp_path.joinpath("begins.py").write_text(early, encoding="utf-8")

    said = run_pytest(tmp_path, CONFTEST, HANDLERS, "-p", "begins")

    assert re.search(r"\b2 passed in", said), said


def test_importing_the_tools_costs_little() -> None:
    """Not much more than `Receiver` itself: no test runner, HTTP client, database or server until one is used."""
    more = imported("import receiver.testing") - imported("import receiver.app")

    heavy = {"httpx", "sqlite3", "uvicorn", "pytest", "freezegun", "hypothesis", "prometheus_client"}
    assert not heavy & more
    assert {name for name in more if name.startswith("receiver.")} == {
        "receiver.testing",
        "receiver.testing.clock",
        "receiver.testing.delivering",
        "receiver.testing.recording",
        "receiver.testing.samples",
        "receiver.testing.work",
        "receiver.service.samples",
    }


def test_without_pytest_everything_but_the_fixtures_works() -> None:
    """They are loaded by pytest alone, so its absence is nobody's error."""
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from receiver import Router\nfrom receiver.testing import *\n"
        "router = Router(); router.add(lambda event: None, '*', name='a')\n"
        "assert_handled(deliver(sample('crawl.page'), router))\n"
    )

    assert "receiver.testing.application" in imported(program)


def test_the_plugin_imports_no_more_than_its_fixtures_need() -> None:
    """Their parts are loaded when a test wants them."""
    more = imported("import receiver.testing.fixtures") - imported("import receiver.app, pytest")

    assert not {"httpx", "uvicorn", "freezegun", "receiver.stores.sqlite.store"} & more
