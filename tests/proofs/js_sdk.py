"""The service's SDK for JavaScript, by the end-to-end suite inside its npm package, against a running emulator."""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.process.harness import Deployment
from tests.proofs.sdk import BROWSER, LEFT_OUT, ORIGINS, PICTURES, site

PACKAGE = "@mendable/firecrawl-js@4.42.0"
FEWEST = 43
"""Tests of the suite that have to pass: its words and files may change."""
_INSTALL_SECONDS = 600


def main(arguments: Sequence[str]) -> None:
    """Run the suite and say what came of it. Ends the program if a test fails, or if too few were found.

    Without npm, or where npm reaches no registry, it is skipped, and one line says so.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.proofs js-sdk", description=__doc__)
    parser.add_argument("--short", action="store_true", help="The same: it takes some two minutes.")
    parser.parse_args(arguments)
    if missing := [name for name in ("node", "npm") if shutil.which(name) is None]:
        sys.stdout.write(f"SKIPPED: the JavaScript SDK, because there is no {missing[0]}\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        package = _install(Path(folder))
        if package is None:
            return
        done = asyncio.run(_run(Path(folder), package))
    told = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    passed = int(told.get("numPassedTests", 0))
    failed = [
        one["fullName"]
        for suite in told.get("testResults", ())
        for one in suite["assertionResults"]
        if one["status"] == "failed"
    ]
    if failed or passed < FEWEST:
        sys.exit(f"{done.stdout[-5000:]}\n{done.stderr[-20_000:]}\n{passed} passed, failed: {failed}")
    sys.stdout.write(f"{passed} tests of the JavaScript SDK passed against the emulator\n")
    if BROWSER.executable is None:
        sys.stdout.write(f"SKIPPED: its tests of screenshots, because the browser {BROWSER.text}\n")


def _install(folder: Path) -> Path | None:
    """Return the folder of the package with all that its tests need; None if it cannot be had here."""
    environment = {**os.environ, "npm_config_update_notifier": "false"}
    try:
        packed = subprocess.run(
            ["npm", "pack", PACKAGE, "--silent"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=_INSTALL_SECONDS,
        )
        shutil.unpack_archive(folder / packed.stdout.split()[-1], folder)
        subprocess.run(
            ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
            cwd=folder / "package",
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=_INSTALL_SECONDS,
        )
    except (subprocess.SubprocessError, OSError) as exc:
        sys.stdout.write(f"SKIPPED: the JavaScript SDK, because npm cannot install it: {type(exc).__name__}\n")
        return None
    return folder / "package"


async def _run(folder: Path, package: Path) -> "subprocess.CompletedProcess[str]":
    given = [f"--site={origin}={site(folder / name)}" for name, origin in ORIGINS.items()]
    ignored = "|".join(f"/{word}\\.test" for word in LEFT_OUT)
    names = [] if BROWSER.executable is not None else ["-t", f"^(?!.*({'|'.join(PICTURES)}))"]
    # A file of helpers lies among the tests, and jest takes it for one of them.
    command = [
        "npx",
        "jest",
        "--json",
        "--forceExit",
        "src/__tests__/e2e/v2",
        "--testMatch",
        "**/*.test.ts",
        *names,
    ]
    if LEFT_OUT:
        command += ["--testPathIgnorePatterns", ignored]
    async with Deployment(folder).start(
        "emulate", "--port", "0", "--page-delay", "1s", "--no-browser-sandbox", *given
    ) as emulator:
        address = re.search(r"http://127\.0\.0\.1:\d+", await emulator.line("http://127.0.0.1:"))
        assert address is not None
        return await asyncio.to_thread(
            subprocess.run,
            command,
            cwd=package,
            env={
                **os.environ,
                **dict.fromkeys(("TEST_URL", "FIRECRAWL_API_URL"), address[0]),
                **dict.fromkeys(("TEST_API_KEY", "FIRECRAWL_API_KEY"), "fc-any"),
                "NODE_OPTIONS": "--experimental-vm-modules",
            },
            capture_output=True,
            text=True,
            check=False,
        )
