"""Every command says and does the same with a PostgreSQL store as with a SQLite store of the same contents."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from receiver.cli.main import receiver, run
from receiver.core.deliveries import Quarantined
from receiver.core.types import DeliveryKey
from receiver.stores import open_store
from tests.cli.kept import (
    BODY,
    DEAD,
    DONE,
    HEADERS,
    HELD,
    NOON,
    QUEUED,
    RUNNING,
    SKIPPED,
    STORE,
    TELL,
    WAITING,
    Filling,
    filled,
)
from tests.doubles import body_of
from tests.stores.outside import PostgresTables
from tests.stores.postgres.limited import limited_user

HANDLERS = """
from receiver import Router
router = Router()

@router.on("*")
async def one(event, ctx):
    return ctx.delivery.id
"""
PAGE = body_of("crawl.page", data=[{"metadata": {"sourceURL": "https://example.com/prices", "title": "Prices"}}])
HIDDEN = "hidden-password"


async def fill() -> None:
    """Fill the SQLite store with something of every kind."""
    await filled(
        lambda store: store.item(DONE, body=PAGE),
        lambda store: store.item(DEAD, TELL, job_id="job-2", type="agent.action"),
        lambda store: store.items(3, WAITING, lane="a"),
        lambda store: store.items(2, QUEUED, lane="a"),
        lambda store: store.item(HELD, note="waits for 2 pages"),
        lambda store: store.item(RUNNING),
        lambda store: store.item(SKIPPED, TELL),
        lambda store: store.items(2, DONE, key="ended-{}", job_id="job-2", type="agent.completed"),
        refuse,
    )
    async with open_store(STORE).search() as index:
        await index.index(limit=100, max_bytes=10**6)


async def refuse(store: Filling) -> None:
    """Put requests into quarantine; one of them can be read now."""
    for key, body in ((DeliveryKey("key-1"), BODY + b" "), (None, b"[]"), (DeliveryKey("late"), PAGE)):
        await store.log.quarantine(Quarantined(NOON, "malformed", "no envelope", key, HEADERS, body))


@pytest.fixture
def both(
    bare_environment: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    postgres_url: str,
) -> Iterator[Callable[..., tuple[int, str]]]:
    """Runs a command on a SQLite store and on a copy in PostgreSQL; returns what both say.

    In PostgreSQL it runs as a user with no more rights than the guide names.
    """
    asyncio.run(fill())
    (bare_environment / "handlers.py").write_text(HANDLERS)
    assert run(receiver.main, ["store", "copy", STORE, postgres_url, "--yes"]) == 0
    reindex(postgres_url)
    monkeypatch.setenv("RECEIVER_SEARCH", "true")
    monkeypatch.setenv("RECEIVER_SECRETS", "secret")
    monkeypatch.setattr("receiver.cli.replay.command.configure_logs", lambda **_: None)
    capfdbinary.readouterr()

    def run_both(*args: str) -> tuple[int, str]:
        found = []
        for url in (STORE, limited):
            monkeypatch.setenv("RECEIVER_STORE", url)
            code = run(receiver.main, list(args))
            out, err = capfdbinary.readouterr()
            found.append((code, shown(out.decode(errors="replace")), shown(err.decode(errors="replace"))))
        assert found[0] == found[1]
        return found[0][0], found[0][1] + found[0][2]

    with limited_user(postgres_url) as limited:
        yield run_both


def reindex(url: str) -> None:
    """Index the words of the copy, as its workers do."""

    async def index() -> None:
        async with open_store(url).search() as index:
            await index.index(limit=100, max_bytes=10**6)

    asyncio.run(index())


def shown(text: str) -> str:
    """Return an output without what has to differ: address, version of the schema, notes about the server."""
    text = re.sub(r"(sqlite|postgresql)://\S+", "STORE", text)
    text = re.sub(r"has schema \d+", "has schema N", text)
    text = re.sub(r"its size is [0-9.]+ \w+", "its size is S", text)
    text = re.sub(
        r"\"seconds\": [0-9.e-]+|\d+\.\d s\b|\"due_at\":\"[^\"]+\"|\"latency_seconds\":[^,}]+", "TIME", text
    )
    return "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith(("note", '{"part":"note"'))
    )


READING = [
    "events list",
    "events list --json",
    "events list --wide --limit 3",
    "events list --type crawl.* --since 2026-08-04T11:00Z --until 2026-08-05T00:00Z",
    *(f"events list --state {state}" for state in ("new", "working", "done", "dead")),
    "events list --job job-2 --json",
    "events list --text prices",
    'events list --text "example com pri"* --json',
    "events list --text nowhere",
    "events show key-1",
    "events show key",
    "events show nothing",
    "events raw key-1",
    "jobs list --json",
    "jobs list --state open",
    "jobs list --type agent --json",
    "jobs show job-2",
    "jobs show job-1 --json",
    "jobs show job",
    "work-items list --json",
    "work-items list --state dead",
    "work-items list --handler handlers.chat.* --wide",
    "work-items show 2",
    "work-items show 4 --json",
    "work-items show 99",
    "work-items states",
    "handlers list --json",
    "handlers list",
    "quarantine list --json",
    "quarantine show 1",
    "quarantine raw 2",
    "quarantine show 77",
    "drift --json",
    "check --json",
    "check",
    "events prune --older-than 1h --dry-run",
    "replay --dry-run --type crawl.*",
    "replay --yes --json",
    "events export --yes",
    "store migrate",
]
CHANGING = [
    "work-items retry 2 --yes",
    "work-items retry --state skipped --yes",
    "work-items bury 3 --reason gone --yes",
    "work-items bury --handler handlers.pages.* --state waiting --reason gone --yes",
    "handlers pause handlers.chat.tell",
    "handlers disable handlers.pages.save --yes",
    "handlers resume handlers.chat.tell",
    "quarantine release 3",
    "replay --enqueue --yes --job job-2",
    "replay --record --yes --job job-2 --limit 1",
    "events prune --older-than 1h --bodies --yes",
    "events prune --older-than 1h --yes",
    "work-items list --json",
    "events list --json",
    "handlers list --json",
    "jobs list --json",
]


def test_every_command_that_reads_says_the_same(both: Callable[..., tuple[int, str]]) -> None:
    """Listings, single things, plans and checks agree in every word, errors too."""
    for command in READING:
        code, text = both(*words(command))
        assert (command, code in (0, 1, 2)) == (command, True)
        assert text, command


def test_every_command_that_changes_something_does_the_same(both: Callable[..., tuple[int, str]]) -> None:
    """After them, both stores still say the same."""
    for command in CHANGING:
        assert both(*words(command))[0] == 0, command


def test_a_bundle_of_one_store_can_be_imported_into_the_other(
    both: Callable[..., tuple[int, str]], postgres_url: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What is exported afterwards is equal, byte by byte."""
    empty = f"{postgres_url}_imported"
    for source, target in ((STORE, empty), (empty, "sqlite:///again.db")):
        assert run(receiver.main, ["events", "export", "bundle", "--store", source]) == 0
        assert run(receiver.main, ["events", "import", "bundle", "--yes", "--store", target]) == 0
        assert b"imported 12 events" in capfdbinary.readouterr().out
        Path("bundle").unlink()
    PostgresTables(empty).run(f'DROP SCHEMA "{empty.partition("=")[2]}" CASCADE')


@pytest.mark.parametrize("command", ["backup file", "restore handlers.py --yes"])
def test_copies_of_files_are_for_sqlite(
    command: str, postgres_url: str, capsys: pytest.CaptureFixture[str], bare_environment: Path
) -> None:
    """The refusal says what to use."""
    (bare_environment / "handlers.py").write_text(HANDLERS)

    assert run(receiver.main, [*words(command), "--store", postgres_url]) == 2
    assert "pg_dump" in capsys.readouterr().err


UNREACHABLE = [
    "events list",
    "jobs list",
    "work-items list",
    "handlers list",
    "quarantine list",
    "work-items retry 1 --yes",
    "events prune --older-than 1h --yes",
    "drift",
    "check",
    "store migrate",
    "replay --yes",
]


@pytest.mark.parametrize("command", UNREACHABLE)
def test_an_unreachable_server_is_told_in_a_line(
    command: str, bare_environment: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 3. Nothing shows the password, and nothing is retried for ever."""
    (bare_environment / "handlers.py").write_text(HANDLERS)
    monkeypatch.setenv("RECEIVER_SECRETS", "secret")
    monkeypatch.setenv("RECEIVER_STORE", f"postgresql://user:{HIDDEN}@127.0.0.1:1/nothing")
    monkeypatch.setattr("receiver.cli.replay.command.configure_logs", lambda **_: None)

    assert run(receiver.main, words(command)) == 3

    out, err = capfd.readouterr()
    assert "cannot be used" in out + err
    assert "Traceback" not in out + err
    assert HIDDEN not in out + err


def words(command: str) -> list[str]:
    """Split a command line; a phrase in quotes keeps them."""
    return re.findall(r'"[^"]*"\S*|\S+', command)
