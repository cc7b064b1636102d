"""`receiver check`, run as a user runs it."""

import asyncio
import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from receiver.cli.check import size_and_lag, wrapped
from receiver.cli.main import receiver, run
from receiver.core.activity import WorkerSign
from receiver.core.clock import SystemClock
from receiver.core.types import WorkerId
from receiver.core.units import shown_size
from receiver.core.work import StoreFacts
from receiver.errors import StoreError
from receiver.stores import open_store
from receiver.stores.grouped_log import GroupedLog
from receiver.stores.sqlite.statements import upkeep
from tests.doubles import appended, delivery

MUCH = 10**9
HANDLERS = """
from receiver import Router

router = Router()

@router.on("*")
def look(event): ...
"""


@pytest.fixture(autouse=True)
def deployed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("RECEIVER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("handlers_to_check.py").write_text(HANDLERS)
    monkeypatch.setenv("RECEIVER_HANDLERS", "handlers_to_check:router")
    monkeypatch.setenv("RECEIVER_SECRETS", "a-secret-of-check")


def invoke(*args: str) -> int:
    return run(receiver.main, list(args))


def test_it_repeats_what_the_store_notes_about_its_health(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each. They are no errors."""
    assert invoke("check") == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note ")]
    expected = asyncio.run(open_store("sqlite:///receiver.db").health_notes())
    assert notes == [f"note      {note}" for note in expected]


def test_it_notes_a_public_url_that_the_service_cannot_reach(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no error: events can still be sent from this machine."""
    monkeypatch.setenv("RECEIVER_PUBLIC_URL", "http://127.0.0.1:8000")

    assert invoke("check") == 0

    assert "note      the service at https://api.firecrawl.dev cannot reach" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "code", "line"),
    [
        ({"HOST": "not a host"}, 2, "settings  WRONG: cannot find the address not a host"),
        (
            {"METRICS": "true", "METRICS_HOST": "192.0.2.1", "METRICS_TOKEN": "t" * 20},
            2,
            "settings  WRONG: 192.0.2.1 is not an address of this machine; choose another with RECEIVER_METRICS_",
        ),
        ({"STORE": "sqlite:////proc/none.db"}, 3, "store     WRONG: cannot create the database /proc/none.db"),
        (
            {"CONSOLE_HOST": "0.0.0.0"},
            0,
            "note      `receiver serve --console` cannot start: RECEIVER_CONSOLE_HOST",
        ),
        ({"CONSOLE_PORT": "8000"}, 0, "note      `receiver serve --console` cannot start: RECEIVER_PORT and"),
    ],
)
def test_what_serve_would_refuse_is_told(
    values: dict[str, str],
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is started or made for it."""
    for name, value in values.items():
        monkeypatch.setenv(f"RECEIVER_{name}", value)

    assert invoke("check") == code

    assert f"\n{line}" in "\n" + capsys.readouterr().out
    assert list(Path().glob("*.db*")) == []


def test_the_address_of_the_receiver_is_checked_as_a_job_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a call, and also if there is no key yet."""
    monkeypatch.setenv("RECEIVER_PUBLIC_URL", "foo")

    assert invoke("check") == 2

    assert "WRONG: RECEIVER_PUBLIC_URL" in told(capsys, "service")


def test_as_json_each_part_and_note_is_an_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part that is wrong has its exit code; that of the command is the highest."""
    monkeypatch.setenv("RECEIVER_HANDLERS", "nowhere:router")
    monkeypatch.setenv("RECEIVER_PUBLIC_URL", "http://127.0.0.1:8000")

    assert invoke("check", "--json") == 2

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    parts = {one["part"]: one for one in told}
    assert parts["settings"] == {"part": "settings", "ok": True, "exit_code": 0, "text": "read without errors"}
    assert (parts["handlers"]["ok"], parts["handlers"]["exit_code"]) == (False, 2)
    assert "nowhere" in parts["handlers"]["text"]
    assert any(one["part"] == "note" and one["text"].startswith("the service at") for one in told)


def told(capsys: pytest.CaptureFixture[str], part: str = "metrics") -> str:
    """Return the line about a part."""
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{part} ")]
    return line


def test_it_says_whether_search_is_on_and_what_the_index_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Off unless switched on; then the index is to come, and to take in what is stored."""
    assert invoke("check") == 0
    assert "is off; RECEIVER_SEARCH=true" in told(capsys, "search")

    monkeypatch.setenv("RECEIVER_SEARCH", "true")
    assert invoke("check") == 0
    assert told(capsys, "search").endswith("is on; a worker will build the index")

    asyncio.run(indexed("a"))
    assert invoke("check") == 0
    assert told(capsys, "search").endswith("is on; the index is complete")

    asyncio.run(indexed("b", index=False))
    assert invoke("check") == 0
    assert told(capsys, "search").endswith("is on; 1 delivery not yet in the index")


async def indexed(key: str, *, index: bool = True) -> None:
    """Store a delivery, and take it in or not."""
    store = open_store("sqlite:///receiver.db")
    async with store.log() as log, store.search() as words:
        await appended(log, delivery(key))
        if index:
            await words.index(limit=9, max_bytes=MUCH)


def test_an_sqlite_without_full_text_search_is_wrong_where_search_is_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some Pythons have such a one: exit code 2, and what to do. Without search it does not matter."""
    monkeypatch.setattr(upkeep, "HAS_MODULE", upkeep.HAS_MODULE.replace("fts5", "fts5_that_is_missing"))
    assert invoke("check") == 0
    capsys.readouterr()

    monkeypatch.setenv("RECEIVER_SEARCH", "true")
    assert invoke("check") == 2
    line = told(capsys, "search")
    assert "WRONG" in line
    assert "no full text search (FTS5)" in line


def test_it_says_where_metrics_are_and_for_whom(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Off unless switched on; the token is not shown."""
    assert invoke("check") == 0
    assert "RECEIVER_METRICS=true" in told(capsys)

    monkeypatch.setenv("RECEIVER_METRICS", "true")
    assert invoke("check") == 0
    line = told(capsys)
    assert "9464" in line
    assert "this machine only" in line

    monkeypatch.setenv("RECEIVER_METRICS_TOKEN", "a-hidden-token")
    assert invoke("check") == 0
    line = told(capsys)
    assert "requests with the token" in line
    assert "hidden" not in line


def test_metrics_for_the_open_network_need_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would not start, and so the check fails."""
    monkeypatch.setenv("RECEIVER_METRICS", "true")
    monkeypatch.setenv("RECEIVER_METRICS_HOST", "0.0.0.0")

    assert invoke("check") == 2
    assert "RECEIVER_METRICS_TOKEN" in told(capsys)


def test_it_says_where_alerts_go_and_about_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It posts none, and does not show the URL."""
    assert invoke("check") == 0
    assert "alerts    are off; RECEIVER_ALERT_URL posts them to a chat\n" in capsys.readouterr().out

    monkeypatch.setenv("RECEIVER_ALERT_URL", "https://chat.invalid/secret-part")
    monkeypatch.setenv("RECEIVER_ALERT_NO_DELIVERY_FOR", "1d")
    assert invoke("check") == 0
    shown = capsys.readouterr().out
    assert "posted to chat.invalid, without signature, about: backlog, dead, no delivery, quarantined;" in shown
    assert "secret-part" not in shown


def test_it_says_whether_traces_are_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing takes them, it says what to install."""
    assert invoke("check") == 0
    assert "traces    are off;" in capsys.readouterr().out

    monkeypatch.setenv("RECEIVER_TRACES", "true")
    for answer, text in (
        (lambda: True, "are sent as the variables of OpenTelemetry"),
        (lambda: False, "pip install opentelemetry-distro"),
    ):
        monkeypatch.setattr("receiver.cli.check.switch_on", answer)
        assert invoke("check") == 0
        assert text in capsys.readouterr().out


def test_a_deployment_without_authentication_is_wrong_unless_that_was_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would not start; where ALLOW_UNSIGNED is set, the line says what that means."""
    monkeypatch.delenv("RECEIVER_SECRETS")
    assert invoke("check") == 2
    assert "WRONG: no RECEIVER_SECRETS and no RECEIVER_TOKENS" in told(capsys, "security")

    monkeypatch.setenv("RECEIVER_ALLOW_UNSIGNED", "true")
    assert invoke("check") == 0
    assert "deliveries from anybody are accepted" in told(capsys, "security")


@pytest.mark.parametrize(
    ("secrets", "tokens", "expected"),
    [
        ("one", "", "1 secret is accepted"),
        ("one,two", "", "2 secrets are accepted"),
        ("", "three", "1 token is accepted"),
        ("one", "three", "1 secret and 1 token are accepted"),
    ],
)
def test_secrets_and_tokens_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], secrets: str, tokens: str, expected: str
) -> None:
    """Their values are not shown."""
    monkeypatch.setenv("RECEIVER_SECRETS", secrets)
    monkeypatch.setenv("RECEIVER_TOKENS", tokens)
    if tokens:
        monkeypatch.setenv("RECEIVER_TOKEN_HEADER", "X-Token")

    assert invoke("check") == 0
    assert told(capsys, "security").endswith(expected)


def test_it_notes_secrets_that_can_be_guessed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no error: a server accepts them. They are not shown."""
    monkeypatch.setenv("RECEIVER_SECRETS", "q")

    assert invoke("check") == 0

    shown = capsys.readouterr().out
    assert "note      RECEIVER_SECRETS has 1 secret of less than 14 bytes: attackers could guess it" in shown


def test_a_long_line_is_wrapped_for_a_terminal() -> None:
    """The text stays in its column, and a URL stays whole."""
    url = "https://sqlite.org/wal.html#walresetbug-and-more-of-the-page"
    lines = wrapped(f"note      SQLite has a bug, see {url} for the version without it", 50).splitlines()

    assert lines == ["note      SQLite has a bug, see", f"          {url}", "          for the version without it"]


def test_a_store_that_is_not_there_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told, and is no error: `receiver serve` creates it."""
    assert invoke("check") == 0
    assert "does not exist yet" in capsys.readouterr().out
    assert list(tmp_path.glob("receiver.db*")) == []


@pytest.mark.postgres
def test_a_database_without_our_tables_is_told_from_one_that_is_not_there(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no error: the tables are made by the command that the guide names."""
    monkeypatch.setenv("RECEIVER_STORE", postgres_url)

    assert invoke("check") == 0

    line = told(capsys, "store")
    assert "has no tables of ours yet; `receiver store migrate` creates them" in line
    assert "does not exist" not in line


@pytest.mark.parametrize(("sizes", "probed"), [((), 65_536), ((100_000, 70_000), 100_000), ((10,), 65_536)])
def test_it_tests_a_write_of_the_usual_size(
    sizes: tuple[int, ...], probed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk a small write may succeed, and every delivery fail. That is an error of the store."""

    async def store() -> None:
        async with open_store("sqlite:///receiver.db").log() as log:
            for number, size in enumerate(sizes):
                await appended(log, delivery(str(number), body=b"x" * size))

    asyncio.run(store())
    tried = list[int]()

    def probe(self: GroupedLog, now: datetime, size: int = 0) -> "asyncio.Future[None]":
        tried.append(size)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_exception(StoreError("the disk is full"))
        return future

    monkeypatch.setattr(GroupedLog, "probe", probe)

    assert invoke("check") == 3

    assert tried == [probed]
    assert f"WRONG: a delivery of {shown_size(probed)} cannot be written: the disk is full" in told(capsys, "store")


def test_handlers_see_what_env_files_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with a worker: code that asks for a variable when it is imported is not called wrong."""
    Path(".env").write_text("OF_A_HANDLER=1\n")
    monkeypatch.setenv("OF_A_HANDLER", "so that it is put back afterwards")
    monkeypatch.delenv("OF_A_HANDLER")
    Path("handlers_with_a_key.py").write_text(HANDLERS + "\nimport os\nos.environ['OF_A_HANDLER']\n")

    assert invoke("check", "--handlers", "handlers_with_a_key:router") == 0
    assert "handlers_with_a_key:router has 1" in capsys.readouterr().out


def test_prints_of_the_code_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the output."""
    Path("handlers_that_print.py").write_text("print('printed at import')\n" + HANDLERS)

    assert invoke("check", "--json", "--handlers", "handlers_that_print:router") == 0

    out, err = capsys.readouterr()
    assert all(json.loads(line) for line in out.splitlines())
    assert "printed at import" in err


def test_it_tells_which_workers_run(capsys: pytest.CaptureFixture[str]) -> None:
    """One that has not said for minutes that it lives is told too, and is no error."""
    now = SystemClock().now()

    async def sign_on() -> None:
        async with open_store("sqlite:///receiver.db").queue() as queue:
            for name, seen_at in (("a", now), ("b", now - timedelta(hours=1))):
                await queue.sign_on(WorkerSign(WorkerId(name), f"host-{name}", 7, "1.2", seen_at), now=seen_at)

    asyncio.run(sign_on())

    assert invoke("check") == 0

    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("workers ")]
    assert "1 runs: host-a (process 7, version 1.2); b was last seen 1h" in line
    assert "it hangs, or was killed" in line


def test_it_tells_that_no_worker_runs(capsys: pytest.CaptureFixture[str]) -> None:
    async def make() -> None:
        async with open_store("sqlite:///receiver.db").queue():
            pass

    asyncio.run(make())

    assert invoke("check") == 0
    assert "workers   none runs now; `receiver serve` starts one" in capsys.readouterr().out


def test_it_says_how_to_get_a_browser_for_the_emulator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing extra, or a missing Chromium, is no error: a server needs neither."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/nowhere")
    texts = []
    for missing in ("pypdf", "playwright", None):
        with pytest.MonkeyPatch.context() as patch:
            if missing is not None:
                patch.setitem(sys.modules, missing, None)
            assert invoke("check") == 0
        texts.append(told(capsys, "emulator"))

    assert "crawl-receiver[emulator]" in texts[0]
    assert "crawl-receiver[browser]" in texts[1]
    assert all("apt install chromium" in text for text in texts[1:])


def test_the_store_is_shown_with_its_size_and_the_lag_of_its_standby() -> None:
    """Without a standby nothing is said of it."""
    assert size_and_lag(StoreFacts(2_048)) == "its size is 2.0 KB"
    assert size_and_lag(StoreFacts(2_048, standby_lag=timedelta(seconds=70))) == (
        "its size is 2.0 KB; its last standby is 1m10s behind"
    )
