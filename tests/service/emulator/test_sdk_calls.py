"""The calls that the SDK's own suite lacks, by the real SDK against a running emulator: version 1 and monitors."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.harness import Deployment
from tests.service.emulator.sdk_program import NEW, OLD, ORIGIN, PAGE, write_site

ROOT = Path(__file__).parents[3]


@pytest.mark.long
async def test_the_sdk_reads_the_answers_to_its_calls(tmp_path: Path) -> None:
    """Version 1: scrape, map, crawl, batch scrape, watchers. Version 2: everything about monitors."""
    folder = tmp_path / "site"
    folder.mkdir()
    write_site(folder)
    site = ("--no-bundled-site", "--site", f"{ORIGIN}={folder}")
    async with Deployment(tmp_path).start("emulate", "--port", "0", *site) as emulator:
        address = re.search(r"http://127\.0\.0\.1:\d+", await emulator.line("http://127.0.0.1:"))
        assert address is not None
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "tests.service.emulator.sdk_program", address[0], str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(done.stdout)
    pages = sorted([ORIGIN, PAGE, f"{ORIGIN}/guide.html", f"{ORIGIN}/faq.html"])
    scrapes, jobs, monitors = found["scrapes"], found["jobs"], found["monitors"]

    assert (scrapes["markdown"], scrapes["title"], scrapes["json"]) == (OLD, "Acme", {"title": "Acme"})
    assert scrapes["changes"] == ["new", "changed"]
    assert f"-{OLD}" in scrapes["diff"]
    assert f"+{NEW}" in scrapes["diff"]
    assert sorted(scrapes["map"]) == pages

    assert jobs == {
        "crawl": ["completed", pages],
        "batch": ["completed", 2],
        "watched": [4, "completed"],
        "batch watched": [2, "completed"],
        "status": ["completed", 4, 4, 4],
        "errors": [],
        "batch status": 100,
        "cancelled": "cancelled",
    }

    assert monitors["changed"][0] == PAGE
    assert f"+{NEW}" in monitors["changed"][1]
    del monitors["changed"]
    assert monitors == {
        "made": ["active", 10, True],
        "listed": True,
        "read": {"total_pages": 2, "same": 1, "changed": 1, "new": 0, "removed": 0, "error": 0},
        "checks": ["manual", "manual"],
        "pages": [["new", "new"], ["changed", "same"]],
        "paused": "paused",
        "deleted": True,
        "left": [],
    }
    assert found["async"] == ["Europe/Berlin", "completed", 4, True]
