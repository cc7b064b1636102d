"""`receiver replay` with handlers here and now, run as a user runs it, on a real database."""

import json
import sqlite3
import tracemalloc
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.core.clock import local_time
from receiver.core.types import WorkState
from tests.cli.kept import BODY, NOON, SAVE, Filling, delivery, fill, items, on_a_terminal
from tests.cli.replaying import KEYS, Command, handled, keep, keep_jobs, write_handlers

pytestmark = pytest.mark.usefixtures("configured")

FAILS = """
@router.on("crawl.page")
def good(event, ctx): return ctx.delivery.id

@router.on("crawl.page")
async def bad(event, ctx):
    if ctx.delivery.id == "b":
        raise ValueError("no \\x1b[31m red")
"""
PLAN = f"""2 events to replay here, 172 bytes
  by type
              1  crawl.failed
              1  crawl.page
  by handler
              2  replayed.one
              1  replayed.picky
  arrived   {local_time(NOON)} to {local_time(NOON + timedelta(minutes=1))}
  first     {local_time(NOON)}  crawl.page  a
            {local_time(NOON + timedelta(minutes=1))}  crawl.failed  b
  1 handler of these may get fewer: where= is checked for each event
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command with handlers that write keys to a file."""
    write_handlers(KEYS, monkeypatch)
    return Command(monkeypatch, capsys)


def results(command: Command) -> list[tuple[str, str, object]]:
    """Return key, outcome and value of each line of JSON."""
    found = [json.loads(line) for line in command.out.splitlines()]
    return [(one["id"], one["outcome"], one["value"]) for one in found]


# --- the plan


def test_a_plan_is_shown_first(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --dry-run only the plan is shown."""
    keep(delivery("a"), delivery("b", 1, type="crawl.failed"))
    write_handlers(KEYS + "\n@router.on('crawl.page', where=lambda e: False)\ndef picky(event): ...\n", monkeypatch)

    assert command("--dry-run") == 0
    assert command.out == PLAN
    assert handled() == []

    assert command() == 0
    assert command.out.startswith(PLAN)
    assert handled() == ["a", "b"]

    assert command("--dry-run", "--type", "crawl.failed") == 0
    assert "may want fewer" not in command.out, "nothing of this plan is for it"


def test_without_a_terminal_it_needs_yes(command: Command) -> None:
    """No handler runs."""
    keep(delivery("a"))

    assert command(yes=False) == 2
    assert "add --yes" in command.err
    assert handled() == []


def test_it_asks_on_a_terminal() -> None:
    """The answer no is exit code 1."""
    keep(delivery("a"))
    Path("handlers.py").write_text(f"from receiver import Router\nrouter = Router()\n{KEYS}")

    code, seen = on_a_terminal("replay", answer="n\n")
    assert (code, handled()) == (1, [])
    assert "Run the handlers here now? [y/N]: n" in seen
    assert "nothing was changed" in seen

    code, seen = on_a_terminal("replay", answer="y\n")
    assert (code, handled()) == (0, ["a"])
    assert "succeeded  crawl.page" in seen


def test_ctrl_c_at_the_question_ends_it() -> None:
    """The command stops at once."""
    keep(delivery("a"))
    Path("handlers.py").write_text(f"from receiver import Router\nrouter = Router()\n{KEYS}")

    code, seen = on_a_terminal("replay", answer="\x03")

    assert (code, handled()) == (130, [])
    assert "nothing was changed" in seen


def test_a_plan_leaves_out_events_before_the_place(command: Command) -> None:
    """--after leaves them out."""
    keep_jobs(4)

    assert command("--after", "3", "--dry-run") == 0
    assert command.out.startswith("1 event to replay here")
    assert f"first     {local_time(NOON + timedelta(minutes=3))}  crawl.page  k3" in command.out
    assert command.out.endswith("  left out: the events up to 3 in this order\n")

    assert command("--after", "9") == 0
    assert (command.out, command.err) == ("", "no event matched\n")


def test_events_from_the_future_are_replayed(command: Command) -> None:
    """Our clock does not matter."""
    keep(delivery("a", 60 * 24 * 365 * 50))

    assert command() == 0
    assert handled() == ["a"]


# --- what is replayed


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((), "k0 k1 k2 k3 k4 k5"),
        (("--order", "job"), "k2 k1 k5 k3 k0 k4"),
        (("--limit", "2"), "k4 k5"),
        (("--since", "2026-08-04T12:04:00Z"), "k4 k5"),
        (("--until", "2026-08-04T12:01:00Z"), "k0"),
        (("--job", "j2"), "k1 k5"),
        (("--after", "4"), "k4 k5"),
        (("--order", "job", "--after", "6:j2"), "k3 k0 k4"),
        (("--type", "crawl.p*", "--limit", "1"), "k5"),
        (("--where", "metadata.a == '1' and not (type == 'x')", "--limit", "1"), "k5"),
        (("--where", "data.0.missing > 1"), ""),
        (("--handler", "*.on?"), "k0 k1 k2 k3 k4 k5"),
    ],
)
def test_events_are_chosen(asked: tuple[str, ...], expected: str, command: Command) -> None:
    """Filters, an expression, a place and the order choose them."""
    keep_jobs(6)

    assert command(*asked) == 0
    assert handled() == expected.split()


def test_handlers_are_chosen_by_globs(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the handlers that match run."""
    keep(delivery("a"))
    write_handlers(
        "".join(f"@router.on('*')\ndef {name}(event): return '{name}'\n" for name in ("ab", "cd", "ce", "f")),
        monkeypatch,
    )

    assert command("--handler", "*.c?", "--handler", "replayed.f", "--json") == 0
    assert [value for _, _, value in results(command)] == ["cd", "ce", "f"]


def test_failed_replays_only_the_handlers_that_failed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other handler runs."""

    async def some(store: Filling) -> None:
        await store.item(WorkState.DONE, SAVE)
        await store.item(WorkState.DEAD, SAVE)

    fill(some)
    write_handlers(
        f"@router.on('*', name='{SAVE}')\ndef save(event): return 1\n@router.on('*')\ndef other(event): return 2\n",
        monkeypatch,
    )

    assert command("--failed", "--json") == 0
    assert results(command) == [("key-2", "succeeded", 1)]
    assert "1 event to replay here" in command.err
    assert command("--failed", "--json", "--handler", "*other") == 0
    assert command.out == ""


def test_a_bundle_is_replayed_without_a_store(command: Command) -> None:
    """Filters and both orders work. A damaged line is reported, and the others are replayed with exit code 1."""
    keep_jobs(4)
    command.exactly("events", "export", "bundle.gz")
    command.exactly("events", "export", "bundle")
    Path("kept.db").unlink()
    assert command("bundle.gz", "--order", "job") == 0
    assert handled() == ["k2", "k1", "k3", "k0"]

    lines = Path("bundle").read_bytes().splitlines(keepends=True)
    Path("bundle").write_bytes(b"".join([*lines[:2], b"{}\n", *lines[3:]]))
    assert command("bundle", "--json") == 1
    assert [key for key, _, _ in results(command)] == ["k0", "k2", "k3"]
    assert "bundle, line 3: " in command.err
    assert not Path("kept.db").exists()


@pytest.mark.parametrize("words", [(), ("--dry-run",), ("--type", "another")])
def test_a_bundle_that_was_cut_is_a_failure(command: Command, words: tuple[str, ...]) -> None:
    """As it is for `events import`: a script must not take a part for the whole."""
    keep_jobs(4)
    command.exactly("events", "export", "bundle.gz")
    Path("bundle.gz").write_bytes(Path("bundle.gz").read_bytes()[:-30])

    assert command("bundle.gz", *words) == 1

    assert "damaged place" in command.err


def test_reload_goes_on_with_a_damaged_bundle(command: Command) -> None:
    """Its plan is shown by this command, which has to succeed."""
    keep_jobs(4)
    command.exactly("events", "export", "bundle.gz")
    Path("bundle.gz").write_bytes(Path("bundle.gz").read_bytes()[:-30])

    assert command("bundle.gz", "--reload", "--dry-run") == 0

    assert "damaged place" in command.err


def test_a_bundle_of_long_bodies_needs_little_memory(command: Command) -> None:
    """The events are stored a few megabytes at a time."""
    text = "x" * 2**20
    bodies = [json.dumps({"type": "crawl.page", "id": str(number), "error": text}).encode() for number in range(24)]
    keep(*[delivery(f"k{number}", number, body=body) for number, body in enumerate(bodies)])
    command.exactly("events", "export", "bundle.gz")
    tracemalloc.start()
    try:
        assert command("bundle.gz", "--dry-run") == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "24 events to replay" in command.out
    assert peak < 16 * 2**20


@pytest.mark.parametrize("words", [("replay",), ("events", "import", "--yes")])
def test_a_bundle_that_cannot_be_read_is_one_clear_line(command: Command, words: tuple[str, ...]) -> None:
    """Linux refuses to read this file, though it can be opened."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("only Linux has this file")

    assert command.exactly(*words, "/proc/self/mem") == 1

    assert command.err == "receiver: cannot read the bundle: Input/output error\n"


# --- results


def test_results_are_written_and_counted(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result is a line, a failure has its traceback, and a summary ends it. A failure is exit code 1."""
    keep(delivery("a"), delivery("b", 1), delivery("c", 2, type="agent.action", body=b'{"type":"agent.action"}'))
    write_handlers(FAILS, monkeypatch)

    assert command() == 1

    lines = command.out.splitlines()
    shown = [line for line in lines if line.startswith(("succeeded", "failed"))]
    assert [line.split()[:4] for line in shown] == [
        ["succeeded", "crawl.page", "a", "replayed.good"],
        ["succeeded", "crawl.page", "a", "replayed.bad"],
        ["succeeded", "crawl.page", "b", "replayed.good"],
        ["failed", "crawl.page", "b", "replayed.bad"],
    ]
    assert shown[-1].endswith("ValueError: no \\x1b[31m red")
    assert "    Traceback (most recent call last):" in lines
    assert lines[-4:] == [
        "4 results",
        "              1  failed     replayed.bad",
        "              1  succeeded  replayed.bad",
        "              2  succeeded  replayed.good",
    ]


def test_a_time_out_shows_the_line_of_the_handler(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the worker's log does, without the frames that end a handler."""
    keep(delivery("a"))
    code = (
        "import asyncio\n@router.on('*', timeout=0.001)\nasync def one(event):\n    await asyncio.Event().wait()\n"
    )
    write_handlers(code, monkeypatch)

    assert command() == 1

    first, *below = [
        line for line in command.out.splitlines() if line.startswith(("timed_out", "    replayed", "    T"))
    ]
    assert first.endswith("took longer than 0.001 s and was cancelled")
    assert below == ["    replayed.py:7 in one: await asyncio.Event().wait()"]
    assert "runner.py" not in command.out


def test_json_is_one_object_a_line_and_nothing_else(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan and what handlers print go to standard error."""
    keep(delivery("a"))
    write_handlers("@router.on('*')\ndef one(event):\n    print('printed')\n    return {'a': {1}}\n", monkeypatch)

    assert command("--json") == 0
    assert results(command) == [("a", "succeeded", {"a": [1]})]
    assert "1 event to replay here" in command.err
    assert "printed\n" in command.err


def test_prints_at_import_go_to_standard_error(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With JSON or without: the plan is not made yet."""
    keep(delivery("a"))
    write_handlers("print('printed at import')\n@router.on('*')\ndef one(event): ...\n", monkeypatch)

    assert command("--json") == 0
    assert results(command) == [("a", "succeeded", None)]
    assert "printed at import\n" in command.err


def test_prints_of_handlers_keep_their_place(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their prints come before the line of their result, also in a file."""
    keep(delivery("a"), delivery("b", 1))
    write_handlers("@router.on('*')\ndef one(event): print('printed')\n", monkeypatch)

    assert command() == 0
    words = [line.split()[0] for line in command.out.splitlines()[-6:]]
    assert words[:4] == ["printed", "succeeded", "printed", "succeeded"]


def test_the_store_does_not_change(command: Command) -> None:
    """Without --record nothing is stored."""
    keep_jobs(3)
    with closing(sqlite3.connect("kept.db")) as connection:
        before = list(connection.iterdump())
        assert command() == 0
        assert list(connection.iterdump()) == before


def test_results_are_recorded(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replay makes new work items that are done or dead."""
    keep(delivery("a"), delivery("b", 1))
    write_handlers(FAILS, monkeypatch)

    for _ in range(2):
        assert command("--record", "--handler", "*bad") == 1

    found = [(item.key, item.handler, item.state.value, item.last_error) for item in items()]
    assert (
        found
        == [
            ("a", "replayed.bad", "done", None),
            ("b", "replayed.bad", "dead", "ValueError: no \x1b[31m red"),
        ]
        * 2
    )
    assert command.exactly("work-items", "show", "2") == 0
    assert "replay" in command.out


ONCE = """
@router.on("*")
async def one(event, ctx): return await ctx.once("key")
"""


def test_once_counts_in_this_replay_or_in_the_store(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorded replay stores the keys."""
    keep(delivery("a"), delivery("b", 1))
    write_handlers(ONCE, monkeypatch)

    def values(*args: str) -> list[object]:
        assert command("--json", *args) == 0
        return [value for _, _, value in results(command)]

    assert values() == values() == values("--record", "--frozen-time") == [True, False]
    assert values("--record") == [False, False]


# --- surroundings


def test_frozen_time_is_the_time_of_arrival(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context and the imports of the module see it. Afterwards time is real."""
    keep(delivery("a"), delivery("b", 1))
    code = """
from datetime import UTC, datetime

@router.on("*")
async def one(event, ctx):
    assert ctx.now == datetime.now(UTC) == ctx.delivery.received_at
    return ctx.now
"""
    write_handlers(code, monkeypatch)

    assert command("--frozen-time", "--json") == 0
    assert [value for _, _, value in results(command)] == ["2026-08-04T12:00:00Z", "2026-08-04T12:01:00Z"]
    assert command("--json") == 1


def test_without_network_connections_fail(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for handlers and resources, and the error names the address."""
    keep(delivery("a"))
    code = """
import socket

class Database: ...

@router.resource
def database() -> Database:
    raise NotImplementedError
    yield

@router.on("*")
def one(event): socket.create_connection(("192.0.2.1", 80))
"""
    code = code.replace("def database() -> Database:", "def database() -> Iterator[Database]:")
    write_handlers(f"from collections.abc import Iterator\n{code}", monkeypatch)
    assert command("--no-network") == 1
    assert "NetworkRefused: no network in this replay: 192.0.2.1:80 was refused" in command.out

    code = code.replace("raise NotImplementedError", "socket.create_connection(('192.0.2.1', 5432))")
    code = code.replace("def one(event)", "def one(event, *, given: Database)")
    write_handlers(f"from collections.abc import Iterator\n{code}", monkeypatch)
    assert command("--no-network") == 2
    assert "the resource replayed.database could not be made: NetworkRefused" in command.err
    assert "192.0.2.1:5432" in command.err


# --- wrong use


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--enqueue", "--to", "http://x"), "exclude each other"),
        (("--enqueue", "--record", "--save", "a"), "--record, --save: only if handlers run here"),
        (("--to", "http://x", "--frozen-time"), "--frozen-time: only if handlers run here"),
        (("--enqueue", "--reload"), "--reload: only if handlers run here"),
        (("--rate", "3"), "--rate needs --to"),
        (("--to", "http://x", "--handler", "*"), "with --to they run elsewhere"),
        (("there", "--enqueue"), "run `receiver events import` first"),
        (("there", "--record"), "run `receiver events import` first"),
        (("there", "--failed"), "a bundle has no work items to choose by"),
        (("there", "--state", "dead"), "a bundle has no work items to choose by"),
        (("there",), "there: not a bundle"),
        (("--after", "x"), "as 17 or 17:JOB"),
        (("--after", "17:j"), "add --order job"),
        (("--where", "data.0 ="), "data.0 ="),
        (("--handler", "*none*"), "no handler matched '*none*'; the handlers are replayed.one"),
        (("--handlers", "replayed:nothing"), "replayed has nothing named 'nothing'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(asked: tuple[str, ...], told: str, command: Command) -> None:
    """The exit code is 2, and the message says what to change."""
    keep(delivery("a"))
    Path("there").write_text("{}\n")

    assert command(*asked) == 2
    assert told in command.err
    assert handled() == []


def test_a_router_without_handlers_is_refused(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would run."""
    keep(delivery("a"))
    write_handlers("", monkeypatch)

    assert command() == 2
    assert command.err == "receiver: replayed:router has no handlers: nothing would run\n"


def test_a_missing_store_is_reported(command: Command) -> None:
    """The command does not make a store."""
    assert command() == 3
    assert f"there is no database at {Path('kept.db').absolute()}" in command.err
    assert not Path("kept.db").exists()


def test_an_event_without_its_body_is_skipped(command: Command) -> None:
    """The plan counts it."""
    keep(delivery("a"), delivery("b", 1, body=BODY))
    with closing(sqlite3.connect("kept.db")) as connection, connection:
        connection.execute("DELETE FROM bodies WHERE seq = 1")
        connection.execute("UPDATE deliveries SET pruned_at = 1 WHERE seq = 1")

    assert command() == 0
    assert "  1 of them are skipped: their bodies were pruned\n" in command.out
    assert handled() == ["b"]
