"""`receiver events list --text`, run as a user runs it, on a real database."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from receiver.cli.main import receiver, run
from receiver.core.clock import local_time
from receiver.stores import open_store
from tests.cli.kept import NOON, STORE, delivery
from tests.doubles import appended

pytestmark = pytest.mark.usefixtures("configured")


def stored(*urls: str, index: int | None = None) -> None:
    """Store a page of each URL, and take so many of them into an index, if there is to be one."""

    async def store_all() -> None:
        store = open_store(STORE)
        async with store.log() as log:
            for minutes, url in enumerate(urls):
                body = json.dumps({"type": "crawl.page", "data": [{"metadata": {"sourceURL": url}}]}).encode()
                await appended(log, delivery(f"k{minutes}", minutes, body=body))
        if index is not None:
            async with store.search() as filling:
                await filling.index(limit=index, max_bytes=10**9)

    asyncio.run(store_all())


def found(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[Sequence[str], str]:
    """Return the ids that a listing finds, and what it says beside."""
    assert run(receiver.main, ["events", "list", "--json", *args]) == 0
    seen = capsys.readouterr()
    return [json.loads(line)["id"] for line in seen.out.splitlines()], seen.err


URLS = ("https://example.com/docs/a", "https://example.com/docs/b", "https://shop.example/a")


def test_words_narrow_a_listing(capsys: pytest.CaptureFixture[str]) -> None:
    """They combine with every other filter. A pasted URL finds its pages."""
    stored(*URLS, index=9)

    assert found(capsys, "--text", "docs") == (["k1", "k0"], "")
    assert found(capsys, "--text", "https://example.com/docs/b") == (["k1"], "")
    assert found(capsys, "--text", "example a", "--limit", "1") == (["k2"], "")
    assert found(capsys, "--text", "docs", "--until", "2026-08-04T12:01:00Z") == (["k0"], "")


def test_an_incomplete_index_says_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    """The remark is on standard error, so that programs read only events."""
    stored(*URLS, index=2)

    ids, said = found(capsys, "--text", "example")

    assert ids == ["k1", "k0"]
    assert said == f"the search index ends at {local_time(NOON + timedelta(minutes=1))}: it lacks 1 event\n"


def test_an_empty_index_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """This is so just after it was switched on."""
    stored(*URLS, index=0)

    assert found(capsys, "--text", "example") == (
        [],
        "the search index is empty: it lacks 3 events\n",
    )


def test_without_an_index_it_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    """The error says what to do."""
    stored(*URLS)

    assert run(receiver.main, ["events", "list", "--text", "docs"]) == 2
    seen = capsys.readouterr()
    assert (seen.out, "RECEIVER_SEARCH=true" in seen.err) == ("", True)


@pytest.mark.parametrize("words", ["", "***", "\udcff"])
def test_a_text_without_words_is_wrong_use(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, and the message says why."""
    stored(*URLS, index=9)

    assert run(receiver.main, ["events", "list", "--text", words]) == 2
    assert "--text" in capsys.readouterr().err


@pytest.mark.parametrize("words", ['"', "a AND", "url:", "NEAR(", "{a}:b", "a^b", "' OR 1", "col : *", '"a" * "b"'])
def test_no_text_is_a_syntax_error_of_the_index(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No text causes an error of the database."""
    stored(*URLS, index=9)

    assert run(receiver.main, ["events", "list", "--text", words]) in (0, 2)
    assert "fts5" not in capsys.readouterr().err
