"""What users write passes their type checkers: mypy with and without pydantic's plugin, and pyright."""

import ast
import builtins
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import receiver
from receiver import events
from tests.doubles import LONG
from tests.texts import ROOT, blocks

for checker in ("mypy", "basedpyright"):
    pytest.importorskip(checker, reason="the type checkers come with the extra `dev`")

GIVEN = {
    "AsyncIterator": "from collections.abc import AsyncIterator",
    "Database": (
        "from contextlib import AbstractAsyncContextManager\n\n\n"
        'class Database(AbstractAsyncContextManager["Database"]):\n'
        "    def __init__(self, name: str) -> None: ...\n"
        "    async def __aexit__(self, *_: object) -> None: ...\n"
    ),
    "FastAPI": "from fastapi import FastAPI",
    "body": "body = b'{}'",
    "receiver": "import receiver",
    "router": "import receiver as package\n\nrouter = package.Router()",
    "sentry_sdk": (  # it is not installed here
        "class sentry_sdk:\n"
        "    @staticmethod\n"
        "    def capture_exception(error: BaseException, **scope: object) -> None: ...\n"
    ),
    "signals": "from receiver import signals",
    "timedelta": "from datetime import timedelta",
    **{name: f"from receiver import {name}" for name in receiver.__all__},
    **{name: f"from receiver.events import {name}" for name in events.__all__},
}
"""The meaning of names that a block of README or guide uses and does not define."""

BY_HAND = """
from receiver.events import CrawlPage
from receiver.events.documents import DiffLine, Document, DocumentMetadata
from receiver.requests import ChangeTrackingOptions, ClickAction, JsonOptions, ScrapeRequest

CrawlPage(job_id="1", data=[Document(json_={}, metadata=DocumentMetadata(source_url="https://example.com"))])
DiffLine(del_=True)
ScrapeRequest(url="https://example.com")
ScrapeRequest(
    url="https://example.com",
    formats=["markdown", "changeTracking"],
    actions=[ClickAction(selector="a")],
    change_tracking_options=ChangeTrackingOptions(modes=["json"], schema_={"type": "object"}),
    json_options=JsonOptions(schema_=Document),
    parse_pdf=False,
)
"""
WRONG = """
from receiver.requests import ScrapeRequest

ScrapeRequest(url=5)  # type: ignore
ScrapeRequest(url="https://example.com", formats=["markdwon"])  # type: ignore
ScrapeRequest(url="https://example.com", only_main=True)  # type: ignore
ScrapeRequest()  # type: ignore
"""
"""A comment on a line that a checker accepts is an error, too."""

MYPY = "[mypy]\nstrict = true\npython_version = 3.11\ndisable_error_code = ignore-without-code\n"
WITH_PLUGIN = "plugins = pydantic.mypy\n[mypy-wrong]\nwarn_unused_ignores = false\n"
"""By default the plugin accepts every value, since pydantic may convert it."""
PYRIGHT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportUnnecessaryTypeIgnoreComment": True,
    "reportDeprecated": False,  # it wants newer names than Python 3.11 has
}


def as_module(block: str) -> str:
    """Return a block below definitions of the names that it takes from elsewhere."""
    tree = ast.parse(block)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {name.id for name in names if isinstance(name.ctx, ast.Store)} | set(vars(builtins))
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.arg(arg=name) | ast.alias(name=name, asname=None) | ast.alias(asname=str(name)):
                own.add(name)
    return "\n".join([*(GIVEN[name] for name in sorted({name.id for name in names} - own)), block])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with what users write: each block of README and guide, examples, and requests, right and wrong."""
    for number, (name, block) in enumerate(blocks("python")):
        file = tmp_path / f"{name.removesuffix('.md').lower()}_{number}.py"
        file.write_text(as_module(block), encoding="utf-8")
    unknown = shutil.ignore_patterns("__pycache__", "errors_to_sentry.py")  # no test installs Sentry's package
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=unknown)
    tmp_path.joinpath("by_hand.py").write_text(BY_HAND, encoding="utf-8")
    tmp_path.joinpath("wrong.py").write_text(WRONG, encoding="utf-8")
    return tmp_path


def findings(project: Path, *command: str) -> list[str]:
    """Run a tool of this environment on the project; return the lines of its report."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, timeout=LONG, check=False
    )
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


@pytest.mark.parametrize("plugin", ["", WITH_PLUGIN], ids=["alone", "with the plugin"])
def test_mypy_agrees(project: Path, pytestconfig: pytest.Config, plugin: str) -> None:
    """In strict mode, with pydantic's plugin and without."""
    project.joinpath("mypy.ini").write_text(MYPY + plugin, encoding="utf-8")
    cache = pytestconfig.cache.mkdir("mypy_plugin" if plugin else "mypy")

    assert findings(project, "mypy", "--no-error-summary", "--cache-dir", str(cache), ".") == []


def test_pyright_agrees(project: Path) -> None:
    """In strict mode. Its fork basedpyright needs no download."""
    project.joinpath("pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")

    found = findings(project, "basedpyright", "--pythonpath", sys.executable)

    assert found == ["0 errors, 0 warnings, 0 notes"]
