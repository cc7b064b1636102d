"""All handlers together: their names, their imports, and all known payloads."""

import ast
import importlib
import logging
from pathlib import Path

import pytest

from handlers import router
from receiver.service.samples import load_sample, sample_names
from tests.handlers.deliveries import handle

ROOT = Path(__file__).parents[2]
ODD_PAYLOADS = sorted((ROOT / "tests/vectors/events").glob("*.json"))
SOURCES = sorted([*(ROOT / "handlers").glob("*.py"), *(ROOT / "examples").glob("*.py")])


def test_handlers_keep_their_names() -> None:
    """Work that waits in a store is bound to these names; a handler that is renamed loses it."""
    assert {handler.name for handler in router} == {
        "handlers.jobs.summarise",
        "handlers.monitors.tell_of_check",
        "handlers.monitors.tell_of_page",
        "handlers.pages.save_page",
    }


@pytest.mark.parametrize("name", sample_names())
def test_every_sample_is_handled(output: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever the service sends, no handler raises."""
    monkeypatch.delenv("CHAT_WEBHOOK_URL", raising=False)

    handle(router, load_sample(name))


@pytest.mark.parametrize("path", ODD_PAYLOADS, ids=lambda path: path.stem)
def test_every_odd_payload_is_handled(output: Path, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Nulls, wrong types, deep nesting, lone surrogates: the fault of a payload is not the fault of a handler."""
    monkeypatch.delenv("CHAT_WEBHOOK_URL", raising=False)

    handle(router, path.read_bytes())


def test_the_documented_output_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without OUTPUT_DIR everything is below `output` in the current folder."""
    monkeypatch.delenv("OUTPUT_DIR", raising=False)
    monkeypatch.chdir(tmp_path)

    handle(router, load_sample("crawl.page"))

    assert (tmp_path / "output/pages/example.com/prices.md").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


def test_a_change_of_a_monitor_is_logged_in_one_record(output: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new user sees it first, and other threads cannot write between its lines."""
    with caplog.at_level(logging.INFO):
        handle(router, load_sample("monitor.page"))

    assert [record.levelname for record in caplog.records] == ["INFO"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_handlers_and_examples_use_public_names_only(source: Path) -> None:
    """They are what users copy, and what users copy has to keep working."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        assert not any(name.partition(".")[0] == "receiver" for name in modules)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "receiver":
            assert node.module in {
                "receiver",
                "receiver.service.responses",
                "receiver.events",
                "receiver.requests",
                "receiver.signals",
                "receiver.testing",
            }
            public = {*importlib.import_module(node.module).__all__, "signals"}
            assert {one.name for one in node.names} <= public
