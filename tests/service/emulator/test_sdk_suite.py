"""The service's own SDK, by the end-to-end suite inside its wheel, against a running emulator.

The suite scrapes `docs.firecrawl.dev`, `firecrawl.dev` and `github.com` through the server. Here these are folders.
"""

import asyncio
import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

from tests.process.harness import Deployment

WITHOUT_EFFECT_HERE = (
    "screenshot",  # needs a browser
    "search",
    "extract",
    "parse",
)
"""Words in the names of the suite's tests and files that this version leaves out."""

PAGES = {
    "index.html": ("Welcome", "The start of the documentation.", ("docs/install", "blog/first", "docs/api-0")),
    "docs/install.html": ("Install", "How the program is installed.", ("docs/api-1",)),
    "blog/first.html": ("First post", "What the blog is about.", ("blog/second",)),
    "blog/second.html": ("Second post", "More of it.", ()),
    **{f"docs/api-{n}.html": (f"Call {n}", f"What call {n} does.", (f"docs/api-{n + 1}",)) for n in range(10)},
    "docs/api-10.html": ("The last call", "What it does.", ()),
}


async def test_the_end_to_end_suite_of_the_sdk_passes(tmp_path: Path) -> None:
    """Scrape, crawl, batch scrape, watchers, map and usage, with the plain and the async client."""
    sites = {origin: site(tmp_path / name) for name, origin in ORIGINS.items()}
    given = [f"--site={origin}={folder}" for origin, folder in sites.items()]
    options = ("--port", "0", "--page-delay", "3s", *given)
    async with Deployment(tmp_path).start("emulate", *options) as emulator:
        address = re.search(r"http://127\.0\.0\.1:\d+", await emulator.line("http://127.0.0.1:"))
        assert address is not None
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, *PYTEST, "-k", " and ".join(f"not {word}" for word in WITHOUT_EFFECT_HERE), suite()],
            cwd=tmp_path,
            env={**os.environ, "API_URL": address[0], "TEST_URL": address[0], "API_KEY": "fc-any"},
            capture_output=True,
            text=True,
            check=False,
        )

    summary = done.stdout.splitlines()[-1]
    assert done.returncode == 0, done.stdout[-8_000:]
    passed = re.search(r"(\d+) passed", summary)
    assert passed is not None
    assert int(passed[1]) >= 60, summary


ORIGINS = {
    "docs": "https://docs.firecrawl.dev",
    "home": "https://firecrawl.dev",
    "code": "https://github.com",
}
PYTEST = (
    "-m",
    "pytest",
    "-q",
    "-n4",
    "--import-mode=importlib",
    "-o",
    "asyncio_mode=auto",
    "-p",
    "no:cacheprovider",
)


def suite() -> str:
    """Return the folder of the suite in the installed package."""
    return str(resources.files("firecrawl").joinpath("__tests__", "e2e", "v2"))


def site(folder: Path) -> Path:
    """Write a small site of linked pages with a logo."""
    for name, (title, text, links) in PAGES.items():
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        listed = "".join(f'<li><a href="/{link}">{link}</a></li>' for link in links)
        page.write_text(
            f"<html><head><title>{title}</title></head><body><main><h1>{title}</h1><p>{text}</p>"
            f'<img src="/logo.svg" alt="logo"><ul>{listed}</ul></main></body></html>'
        )
    return folder
