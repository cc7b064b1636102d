"""What is imported by whom, in a fresh interpreter. `.ci/run` checks the layers themselves with import-linter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import receiver
from tests.doubles import LONG

ROOT = Path(__file__).parent.parent


def imported(statement: str, *, folder: Path = ROOT) -> set[str]:
    """Return the modules that are loaded after a statement."""
    program = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG, check=True, cwd=folder
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "receiver.web.endpoint",
        "receiver.web.health",
        "receiver.web.server",
        "receiver.app",
        "receiver.cli.serve",
    ],
)
def test_the_web_side_imports_no_handlers(module: str) -> None:
    """P3: not even when they lie in the working folder."""
    loaded = imported(f"import {module}")

    assert not {name for name in loaded if name.partition(".")[0] == "handlers"}


@pytest.mark.parametrize("module", ["receiver.web.endpoint", "receiver.web.health", "receiver.web.intake"])
def test_the_intake_knows_neither_stores_nor_worker_nor_events(module: str) -> None:
    """It hands bytes to a port."""
    loaded = imported(f"import {module}")

    parts = {name.split(".")[1] for name in loaded if name.startswith("receiver.")}
    assert not parts & {"stores", "worker", "routing", "events", "cli"}


@pytest.mark.parametrize(
    "module", ["receiver.cli.sign", "receiver.cli.main", "receiver.service.samples", "receiver.events"]
)
def test_small_commands_load_no_server(module: str) -> None:
    """`receiver sign` answers at once."""
    loaded = imported(f"import {module}")

    assert not loaded & {"uvicorn", "starlette", "httpx", "aiosqlite", "rich", "fastapi"}


@pytest.mark.parametrize(
    "module",
    [
        f"receiver.cli.{name}"
        for name in (
            *("events.list", "events.show", "jobs.list", "jobs.show", "work_items.list", "work_items.retry"),
            *("handlers.list", "handlers.pause", "quarantine.list", "drift"),
        )
    ],
)
def test_commands_that_look_into_the_store_load_no_server_and_no_worker(module: str) -> None:
    """They are typed again and again, by somebody who waits for them."""
    loaded = imported(f"import {module}")

    assert not loaded & {"uvicorn", "starlette", "httpx", "aiosqlite", "rich", "prometheus_client"}
    assert not {name for name in loaded if name.startswith(("receiver.app", "receiver.web", "receiver.worker"))}


def test_a_group_imports_only_the_command_that_is_typed() -> None:
    """`receiver events list` does not wait for what `receiver events export` needs."""
    loaded = imported("import click; from receiver.cli.events.group import events; events.get_command(None, 'list')")

    assert "receiver.cli.events.list" in loaded
    assert not loaded & {"receiver.cli.events.export", "receiver.replay.bundles.writing", "receiver.cli.jobs.group"}


@pytest.mark.parametrize(
    "module", ["receiver.app", "receiver.cli.serve", "receiver.cli.work", "receiver.cli.check"]
)
def test_metrics_are_loaded_only_where_they_are_switched_on(module: str) -> None:
    """They would add a tenth of a second to every start."""
    loaded = imported(f"import {module}")

    assert not {name for name in loaded if name.partition(".")[0] == "prometheus_client"}


def test_parsing_an_event_loads_no_server() -> None:
    """`receiver.events` is for tests and notebooks too: no web server, no database, no HTTP client."""
    loaded = imported("import receiver.events")

    assert not loaded & {"uvicorn", "httpx", "rich", "aiosqlite", "click"}


@pytest.mark.parametrize("module", ["receiver.app", "receiver.cli.serve", "receiver.cli.work", "receiver.cli.main"])
def test_the_client_and_its_requests_are_loaded_when_they_are_asked_for(module: str) -> None:
    """They would add a third of a second to every start."""
    loaded = imported(f"import {module}")

    assert not loaded & {"httpx", "receiver.service.client", "receiver.requests", "receiver.service.responses"}
    assert {"httpx", "receiver.service.client"} <= imported("import receiver\nreceiver.AsyncClient")


def test_the_package_loads_nothing_before_a_name_is_asked_for() -> None:
    """`receiver --version` and an interrupt answer at once; what is asked for is loaded, and nothing beside it."""
    assert {name for name in imported("import receiver") if name.startswith("receiver.")} == set()
    loaded = imported("from receiver import verify")
    assert {name for name in loaded if name.startswith("receiver.")} == {"receiver.core", "receiver.core.signing"}


def test_every_public_name_is_there() -> None:
    """Each is loaded from where it is, is among what `dir` tells, and is the same one each time."""
    for name in receiver.__all__:
        assert name in dir(receiver)
        assert getattr(receiver, name) is getattr(receiver, name)
    assert not hasattr(receiver, "unknown")
