"""Which modules a fresh interpreter loads. `.ci/run` checks the layers themselves with import-linter."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.doubles import LONG

ROOT = Path(__file__).parent.parent
PROGRAM = """
import sys, json
found = {}
for statement in sys.argv[1:]:
    exec(statement, {})
    found[statement] = sorted(sys.modules)
print(json.dumps(found))
"""
HEAVY = {"uvicorn", "starlette", "httpx", "receiver.stores.sqlite.store", "rich", "fastapi", "prometheus_client"}
"""Libraries that take long to load."""


def loaded_after(*statements: str) -> dict[str, set[str]]:
    """Return the modules that are loaded after each of some statements, run one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *statements],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
        cwd=ROOT,
    )
    assert done.stderr == ""
    return {statement: set(names) for statement, names in json.loads(done.stdout).items()}


def imported(statement: str) -> set[str]:
    """Return the modules that are loaded after one statement."""
    return loaded_after(statement)[statement]


def assert_not_loaded(modules: list[str], forbidden: Callable[[str], bool]) -> None:
    """Fail for the first module whose import loads something forbidden. One interpreter imports them in turn."""
    for statement, loaded in loaded_after(*[f"import {module}" for module in modules]).items():
        assert [name for name in loaded if forbidden(name)] == [], statement


def room_of(name: str) -> str:
    """Return the package below `receiver` that a module belongs to; empty for a module from elsewhere."""
    return name.split(".")[1] if name.startswith("receiver.") else ""


def test_the_web_side_imports_no_handlers() -> None:
    """Not even when they lie in the working folder: a fault in them must not stop the intake."""
    modules = ["receiver.web.reception", "receiver.web.health", "receiver.web.server", "receiver.app"]

    assert_not_loaded([*modules, "receiver.cli.serve"], lambda name: name.partition(".")[0] == "handlers")


def test_the_intake_knows_neither_stores_nor_worker_nor_events() -> None:
    """It hands bytes to a port."""
    unknown = {"stores", "worker", "routing", "events", "cli"}

    assert_not_loaded(
        ["receiver.web.intake", "receiver.web.health", "receiver.web.reception"],
        lambda name: room_of(name) in unknown,
    )


def test_taking_deliveries_in_loads_nothing_that_runs_handlers() -> None:
    """Handlers run in processes of their own, and what they need takes longer to load than the whole server."""
    running = {"running", "routing", "events", "replay"}

    assert_not_loaded(
        ["receiver.app", "receiver.cli.common.serving"],
        lambda name: room_of(name) in running or name in {"receiver.worker.worker", "starlette.routing"},
    )


def test_the_process_that_writes_is_started_before_the_server_is_loaded() -> None:
    """So both load at the same time. The process itself loads only the log of the store."""
    assert_not_loaded(["receiver.cli.serve"], lambda name: name in HEAVY or name == "receiver.app")

    writes = "import receiver.stores.writer_process.__main__, receiver.stores.sqlite.store"
    faces = {"queue", "controls", "reports", "maintenance", "search", "dialect"}
    unneeded = {"pydantic_core", "receiver.core.work", *(f"receiver.stores.sqlite.{face}" for face in faces)}
    loaded = imported(writes)
    assert "receiver.stores.sqlite.log" in loaded
    assert not loaded & unneeded


def test_small_commands_load_no_server() -> None:
    """`receiver sign` answers at once, and `receiver.events` is for tests and notebooks too."""
    assert_not_loaded(
        ["receiver.events", "receiver.service.samples", "receiver.cli.sign", "receiver.cli.main"],
        lambda name: name in HEAVY,
    )
    assert_not_loaded(["receiver.events"], lambda name: name == "click")


def test_commands_that_look_into_the_store_load_no_server_and_no_worker() -> None:
    """People type them again and again, and wait for them."""
    commands = ("events.list", "jobs", "work_items", "handlers", "quarantine", "drift")

    assert_not_loaded(
        [f"receiver.cli.{name}" for name in commands],
        lambda name: name in HEAVY or room_of(name) in {"app", "web", "worker"},
    )


def test_a_group_imports_only_the_command_that_is_typed() -> None:
    """`receiver events list` does not wait for what `receiver events export` needs."""
    loaded = imported("from receiver.cli.events.list import events; events.get_command(None, 'list')")

    assert "receiver.cli.events.list" in loaded
    assert not loaded & {"receiver.cli.events.bundles", "receiver.replay.bundles.format", "receiver.cli.jobs"}


def test_metrics_are_loaded_only_where_they_are_switched_on() -> None:
    """They would add a tenth of a second to every start."""
    assert_not_loaded(
        ["receiver.app", "receiver.cli.serve", "receiver.cli.work", "receiver.cli.check"],
        lambda name: name == "prometheus_client",
    )


def test_the_client_and_its_requests_are_loaded_when_they_are_asked_for() -> None:
    """They would add a third of a second to every start."""
    late = {"httpx", "receiver.service.client", "receiver.requests", "receiver.service.responses"}

    assert_not_loaded(
        ["receiver.cli.main", "receiver.app", "receiver.cli.serve", "receiver.cli.work"], lambda name: name in late
    )
    assert {"httpx", "receiver.service.client"} <= imported("import receiver; receiver.AsyncClient")


def test_the_package_loads_nothing_before_a_name_is_asked_for() -> None:
    """`receiver --version` and an interrupt answer at once; what is asked for is loaded, and nothing beside it."""
    loaded = loaded_after("import receiver", "import receiver; receiver.__version__", "from receiver import verify")
    own = [{name for name in names if name.startswith("receiver.")} for names in loaded.values()]

    assert own == [set(), set(), {"receiver.core", "receiver.core.signing", "receiver.core.types"}]
