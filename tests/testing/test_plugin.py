"""The plugin in test runs of other projects: it works with each plugin for async tests, and loads little.

Most runs are in this process. A run that depends on which modules are imported has its own process.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.doubles import LONG
from tests.test_layers import imported

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["receiver.testing"]\n'
HANDLERS = """
import pytest
from freezegun import freeze_time
from receiver import Router
from receiver.testing import assert_handled, deliver, sample

@pytest.fixture
def receiver_router():
    router = Router()
    router.add(lambda event: event.type, "crawl.page", name="keep")
    return router

def test_plain(receiver_router):
    assert_handled(deliver(sample("crawl.page"), receiver_router))

@freeze_time("2026-08-04")
def test_plain_in_frozen_time(receiver_router):
    assert_handled(deliver(sample("crawl.page"), receiver_router))
"""
ASYNC = """
import asyncio

{mark}
async def test_sent(receiver_sender, receiver_work_items, receiver_clock):
    with receiver_sender.outage():
        await receiver_sender.send(sample("crawl.page"))
    await receiver_clock.advance(minutes=1)
    assert len(receiver_sender.attempts) == 2
    assert_handled(await receiver_work_items(), "keep", times=1)
    assert asyncio.get_running_loop()
"""
BY_ANYIO = """
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


def write_project(folder: Path, conftest: str, tests: str, options: Sequence[str]) -> tuple[str, ...]:
    """Write a project with one test file; return all options of its test run."""
    folder.joinpath("conftest.py").write_text(conftest, encoding="utf-8")
    folder.joinpath("test_own.py").write_text(tests, encoding="utf-8")
    scope = "" if "no:asyncio" in options else "asyncio_default_fixture_loop_scope = function\n"
    # In this process the plugin has been imported before, which pytest warns of.
    warnings = "filterwarnings =\n    error\n    ignore:Module already imported\n"
    folder.joinpath("pytest.ini").write_text(f"[pytest]\n{warnings}{scope}", encoding="utf-8")
    return ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", *options)


def run_here(pytester: pytest.Pytester, conftest: str, tests: str, *options: str) -> str:
    """Run tests in this process; return the output of pytest."""
    done = pytester.runpytest_inprocess(*write_project(pytester.path, conftest, tests, options))
    return str(done.stdout) + str(done.stderr)


def run_apart(folder: Path, conftest: str, tests: str, *options: str) -> str:
    """Run tests in a process of their own; return the output of pytest."""
    command = (sys.executable, "-m", "pytest", *write_project(folder, conftest, tests, options))
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
def test_fixtures_run_in_the_event_loop_of_the_test(
    pytester: pytest.Pytester, mark: str, extra: str, options: list[str]
) -> None:
    """Whichever plugin runs async tests. Warnings are errors."""
    said = run_here(pytester, CONFTEST, HANDLERS + extra + ASYNC.format(mark=mark), *options)

    assert re.search(r"\b3 passed in", said), said


def test_plain_tests_without_fixtures_need_no_plugin(pytester: pytest.Pytester) -> None:
    """Neither ours nor one for async tests."""
    said = run_here(pytester, "", HANDLERS, "-p", "no:asyncio", "-p", "no:anyio")

    assert re.search(r"\b2 passed in", said), said


def test_the_fixtures_are_documented(pytester: pytest.Pytester) -> None:
    """In `pytest --fixtures`."""
    said = run_here(pytester, CONFTEST, "", "--fixtures", "-p", "no:asyncio")

    listed = said.partition("fixtures defined from receiver.testing.fixtures")[2]
    for name in ("clock", "router", "resources", "sender", "work_items", "settings", "app"):
        assert re.search(rf"^receiver_{name}\b.*\n    \w", listed, re.MULTILINE), name
    assert set(re.findall(r"^(\w+) -- ", listed, re.MULTILINE)) == {
        "receiver_app",
        "receiver_clock",
        "receiver_emulator",
        "receiver_resources",
        "receiver_router",
        "receiver_sender",
        "receiver_service",
        "receiver_settings",
        "receiver_sites",
        "receiver_work_items",
    }


OWN_NAMES = """
import pytest
from receiver import Router
from receiver.testing import assert_handled, sample

@pytest.fixture
def clock():
    return "a clock of this project"

@pytest.fixture
def router():
    return "a router of this project"
"""
PREFIXED = """
@pytest.fixture
def receiver_router():
    router = Router()
    router.add(lambda event: event.type, "crawl.page", name="keep")
    return router

@pytest.mark.asyncio
async def test_sent(receiver_sender, receiver_work_items, receiver_clock, clock, router):
    with receiver_sender.outage():
        await receiver_sender.send(sample("crawl.page"))
    await receiver_clock.advance(minutes=1)
    assert_handled(await receiver_work_items(), "keep", times=1)
    assert (clock, router) == ("a clock of this project", "a router of this project")
"""


def test_fixtures_of_a_project_may_have_short_names(pytester: pytest.Pytester) -> None:
    """Those with `receiver_` do not depend on them."""
    said = run_here(pytester, CONFTEST, OWN_NAMES + PREFIXED, "-p", "no:anyio")

    assert re.search(r"\b1 passed in", said), said


@pytest.mark.parametrize("own_names", ["", OWN_NAMES], ids=["no router", "another router"])
def test_a_sender_without_handlers_says_what_to_write(pytester: pytest.Pytester, own_names: str) -> None:
    """Else every test with it would wait for handlers that do not exist."""
    test = "\nimport pytest\n\n@pytest.mark.asyncio\nasync def test_it(receiver_sender):\n    pass\n"

    said = run_here(pytester, CONFTEST, own_names + test, "-p", "no:anyio")

    assert "write a fixture `receiver_router` that returns your Router" in said
    assert "Traceback" not in said
    assert "fixtures.py" not in said


def test_a_failure_of_a_handler_shows_its_line(pytester: pytest.Pytester) -> None:
    """The output shows the line of the test and the line of the handler, and nothing between."""
    failing = HANDLERS.replace("lambda event: event.type", "fails") + (
        "\ndef fails(event):\n    raise ValueError('price of the gear')\n"
    )

    said = run_here(pytester, CONFTEST, failing, "-k", "test_plain and not frozen")

    assert ">       assert_handled(deliver(sample" in said or ">   assert_handled(deliver(sample" in said, said
    assert re.search(r">\s+raise ValueError\('price of the gear'\)", said), said
    assert set(re.findall(r"^(\S+\.py):\d+: ", said, re.MULTILINE)) == {"test_own.py"}, said


def test_installation_alone_registers_nothing(tmp_path: Path) -> None:
    """A test run without the plugin imports nothing of the package."""
    said = run_apart(
        tmp_path, "", "import sys\n\ndef test_it():\n    assert not [n for n in sys.modules if 'receiver' in n]\n"
    )

    assert re.search(r"\b1 passed in", said), said


def test_coverage_starts_before_anything_is_imported(tmp_path: Path) -> None:
    """The plugin is loaded with the conftest, after the hook in which pytest-cov starts."""
    early = "import sys\n\ndef pytest_load_initial_conftests():\n    assert 'receiver' not in sys.modules\n"
    tmp_path.joinpath("early.py").write_text(early, encoding="utf-8")

    said = run_apart(tmp_path, CONFTEST, HANDLERS, "-p", "early")

    assert re.search(r"\b2 passed in", said), said


def test_importing_the_tools_costs_little() -> None:
    """Little more than what they test: test runner, HTTP client, database and server are loaded on use."""
    more = imported("import receiver.testing") - imported("import receiver.app, receiver.running")

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
    """Only pytest loads the fixtures, so the other tools work without pytest."""
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from receiver import Router\nfrom receiver.testing import *\n"
        "router = Router(); router.add(lambda event: None, '*', name='a')\n"
        "assert_handled(deliver(sample('crawl.page'), router))\n"
    )

    assert "receiver.testing.application" in imported(program)


def test_the_plugin_imports_no_more_than_its_fixtures_need() -> None:
    """Other parts are loaded when a test uses a fixture."""
    more = imported("import receiver.testing.fixtures") - imported("import receiver.app, pytest")

    assert not {"httpx", "uvicorn", "freezegun", "receiver.stores.sqlite.store"} & more


WITHOUT_EXTRA = """
import sys
import pytest

@pytest.fixture(autouse=True)
def without_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "selectolax", None)
"""
EMULATED = """
import pytest
import receiver.testing
from receiver.errors import ConfigurationError

def test_the_tool():
    with pytest.raises(ConfigurationError, match="pip install 'crawl-receiver.emulator.'"):
        receiver.testing.open_emulator

@pytest.mark.asyncio
async def test_the_fixture(receiver_emulator):
    pass
"""


def test_without_the_extra_the_emulator_says_what_to_install(pytester: pytest.Pytester) -> None:
    """The sentence is that of the command, not one about a module that nobody asked for."""
    said = run_here(pytester, CONFTEST + WITHOUT_EXTRA, EMULATED, "-p", "no:anyio")

    assert "1 passed, 1 error" in said
    assert "the emulator needs packages that are not installed: pip install 'crawl-receiver[emulator]'" in said
    assert "ModuleNotFoundError" not in said
