"""Tests of the handlers. `pip install pytest`, then run `pytest` in the folder above."""

from pathlib import Path

import pytest

from handlers import router
from receiver.testing import assert_handled, deliver, sample


def test_a_page_becomes_a_markdown_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`deliver` runs the handlers in memory, without a server."""
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path))

    runs = deliver(sample("crawl.page", data__0__markdown="# Gears"), router)

    assert_handled(runs, "save_page", times=1)
    [page] = tmp_path.glob("pages/**/*.md")
    assert page.read_text(encoding="utf-8").endswith("# Gears")
