"""The service's own SDK, by the end-to-end suite inside its wheel, against a running emulator.

The suite scrapes `docs.firecrawl.dev`, `firecrawl.dev` and `github.com` through the server. Here these are folders.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from receiver.emulator.browser.executable import find_browser
from receiver.emulator.options import EmulatorOptions
from tests.process.harness import Deployment

LEFT_OUT: tuple[str, ...] = ()
"""Words in the names of the suite's tests and files that this version leaves out."""
PICTURES = ("screenshot",)
"""Words in the names of tests that need a browser. Without one they are left out, and this is said."""
BROWSER = find_browser(EmulatorOptions(browser_sandbox=False))
FEWEST = 105
"""Tests of the suite that have to be there: its words and files may change."""

ARTICLE = '<meta property="og:type" content="article"><meta property="article:published_time" content="2026-08-21">'
"""What makes a page one of the news."""
PAGES = {
    "index.html": ("Welcome", "The start of the documentation.", ("docs/install", "blog/first", "docs/api-0")),
    "docs/install.html": ("Install", "How the program is installed.", ("docs/api-1",)),
    "blog/first.html": ("First post", "What the blog of Firecrawl is about.", ("blog/second",)),
    "blog/second.html": ("Second post", "More of it.", ()),
    **{f"docs/api-{n}.html": (f"Call {n}", f"What call {n} does.", (f"docs/api-{n + 1}",)) for n in range(10)},
    "docs/api-10.html": ("The last call", "What it does.", ()),
    "france.html": ("France", "The capital of France is Paris.", ()),
    "ai.html": ("Artificial intelligence", "How machine learning works with firecrawl.", ()),
    "python.html": ("Python programming", "A test of every query to firecrawl in Python.", ()),
}


def main(arguments: Sequence[str]) -> None:
    """Run the suite and say what came of it. Ends the program if a test fails, or if too few were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs sdk", description=__doc__)
    parser.add_argument("--short", action="store_true", help="The same: it takes less than a minute.")
    parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        done = asyncio.run(_run(Path(folder)))
    passed = re.search(r"(\d+) passed", done.stdout.splitlines()[-1])
    if done.returncode or passed is None or int(passed[1]) < FEWEST:
        sys.exit(f"{done.stdout}{done.stderr}")
    sys.stdout.write(f"{passed[1]} tests of the SDK passed against the emulator\n")
    if BROWSER.executable is None:
        sys.stdout.write(f"SKIPPED: its tests of screenshots, because the browser {BROWSER.text}\n")


async def _run(folder: Path) -> "subprocess.CompletedProcess[str]":
    sites = {origin: site(folder / name) for name, origin in ORIGINS.items()}
    given = [f"--site={origin}={pages}" for origin, pages in sites.items()]
    async with Deployment(folder).start(
        "emulate", "--port", "0", "--page-delay", "2s", "--no-browser-sandbox", *given
    ) as emulator:
        address = re.search(r"http://127\.0\.0\.1:\d+", await emulator.line("http://127.0.0.1:"))
        assert address is not None
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, *PYTEST, "-k", " and ".join(f"not {word}" for word in left_out()), suite()],
            cwd=folder,
            env={**os.environ, "API_URL": address[0], "TEST_URL": address[0], "API_KEY": "fc-any"},
            capture_output=True,
            text=True,
            check=False,
        )


ORIGINS = {
    "docs": "https://docs.firecrawl.dev",
    "home": "https://firecrawl.dev",
    "code": "https://github.com",
}
PYTEST = (
    "-m",
    "pytest",
    "-q",
    "-n2",
    "--import-mode=importlib",
    "-o",
    "asyncio_mode=auto",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore:The extract endpoint is in maintenance mode:DeprecationWarning",
)


def left_out() -> tuple[str, ...]:
    """Return the words of the tests that cannot pass here."""
    return LEFT_OUT if BROWSER.executable is not None else (*LEFT_OUT, *PICTURES)


def suite() -> str:
    """Return the folder of the suite in the installed package."""
    return str(resources.files("firecrawl").joinpath("__tests__", "e2e", "v2"))


def site(folder: Path) -> Path:
    """Write a small site of linked pages with a logo."""
    for name, (title, text, links) in PAGES.items():
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        dated = ARTICLE if name.startswith("blog/") else ""
        listed = "".join(f'<li><a href="/{link}">{link}</a></li>' for link in links)
        page.write_text(
            f"<html><head><title>{title}</title>{dated}</head><body><main><h1>{title}</h1><p>{text}</p>"
            f'<img src="/logo.svg" alt="logo"><ul>{listed}</ul></main></body></html>'
        )
    return folder
