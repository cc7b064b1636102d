"""`receiver handlers`, and what `check` and a worker say of handlers, run as a user runs them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from receiver.core.clock import local_time
from receiver.core.schedules import PlannedRun
from receiver.core.types import HandlerName, HandlerSwitch
from tests.cli.kept import (
    DEAD,
    DONE,
    HELD,
    NOON,
    QUEUED,
    SAVE,
    SKIPPED,
    TELL,
    WAITING,
    Filling,
    delivery,
    ended,
    fill,
    filled,
    made,
    on_a_terminal,
)
from tests.doubles import appended
from tests.process.harness import Deployment, Program, until

pytestmark = pytest.mark.usefixtures("configured")

OLD = HandlerName("handlers.old.index")
CODE = f"""
from receiver import Router

print("noise at import")
router = Router()

@router.on("crawl.*", name="{SAVE}")
def save(event): ...

@router.on("*", name="{TELL}")
def tell(event): ...
"""


@pytest.fixture(autouse=True)
def code(configured: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Handlers in a module of their own name, as a process imports a module once."""
    module = f"code_{abs(hash(request.node.nodeid))}"
    Path(f"{module}.py").write_text(CODE)
    monkeypatch.setenv("RECEIVER_HANDLERS", f"{module}:router")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    return module


def invoke(*args: str) -> int:
    return run(receiver.main, ["handlers", *args])


def listed(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    assert invoke("list", "--json", *args) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def switches(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return {line["name"]: line["status"] for line in listed(capsys)}


async def busy(store: Filling) -> None:
    """Work of a handler in the code and of one that is not there any more."""
    await store.item(DONE, attempt=ended(seconds=2))
    await store.item(DEAD)
    await store.item(WAITING)
    await store.item(HELD)
    await store.item(SKIPPED)
    await store.item(WAITING, OLD, lane="lane-1")
    await store.item(QUEUED, OLD, lane="lane-1")
    await store.item(DONE, HandlerName("handlers.older"))


# --- list


def test_the_listing_as_json_has_one_object_per_handler(capsys: pytest.CaptureFixture[str]) -> None:
    """The handlers of the code and of the store come in the order of their names, with a count for every state."""
    fill(busy)

    lines = listed(capsys)

    assert [(line["name"], line["registered"]) for line in lines] == [
        ("handlers.chat.tell", True),
        ("handlers.old.index", False),
        ("handlers.older", False),
        ("handlers.pages.save", True),
    ]
    none = {"waiting": 0, "queued": 0, "held": 0, "running": 0, "done": 0, "dead": 0, "skipped": 0}
    assert lines[0] == {
        "name": "handlers.chat.tell",
        "status": "on",
        "registered": True,
        "counts": none,
        "last_error": None,
        "latency_seconds": None,
        "schedule": None,
        "next_run": None,
    }
    assert list(lines[3]) == list(lines[0])
    assert lines[3] == {
        "name": "handlers.pages.save",
        "status": "on",
        "registered": True,
        "counts": none | {"done": 1, "dead": 1, "waiting": 1, "held": 1, "skipped": 1},
        "last_error": "ValueError: no such page",
        "latency_seconds": 2.0,
        "schedule": None,
        "next_run": None,
    }
    assert lines[1]["counts"] == none | {"waiting": 1, "queued": 1}


def test_the_listing_for_people_has_aligned_lines_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    """Waiting, queued and held items are one number. A remark names handlers that are not in the code."""
    fill(busy)
    capsys.readouterr()

    assert invoke("list") == 0
    out, err = capsys.readouterr()
    assert [line.split(maxsplit=9) for line in out.splitlines()[1:]] == [
        ["handlers.chat.tell", "on", "yes", "0", "0", "0", "0", "0", "-", "-"],
        ["handlers.old.index", "on", "no", "2", "0", "0", "0", "0", "-", "-"],
        ["handlers.older", "on", "no", "0", "0", "1", "0", "0", "250", "ms     -"],
        ["handlers.pages.save", "on", "yes", "2", "0", "1", "1", "1", "2.0", "s      ValueError: no such page"],
    ]
    assert err.splitlines() == [
        "noise at import",
        "handlers.old.index is not in the code: its 2 waiting items stay until it is back, or until "
        "`receiver work-items bury --handler handlers.old.index --reason TEXT`",
    ]


def test_the_listing_on_a_terminal_is_a_table() -> None:
    """It has as many columns as fit."""
    fill(busy)

    narrow = on_a_terminal("handlers", "list", columns=80)[1].splitlines()[1:]
    wide = on_a_terminal("handlers", "list", columns=150)[1].splitlines()[1:]

    assert narrow[0].split() == ["handler", "status", "registered", "waiting", "running", "done", "dead", "median"]
    assert narrow[4].split() == ["handlers.pages.save", "on", "yes", "2", "0", "1", "1", "2.0", "s"]
    assert max(map(len, narrow[:5])) <= 80
    assert wide[0].split() == [
        *[
            "handler",
            "status",
            "registered",
            "waiting",
            "running",
            "done",
            "dead",
            "skipped",
            "median",
            "last_error",
        ]
    ]


def test_the_listing_has_the_next_run_of_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    """Below its row where a terminal has no room for it. The store knows it, whatever became of the code."""

    async def follow(store: Filling) -> None:
        planned = PlannedRun(HandlerName("handlers.report"), "cron 0 9 * * 1 UTC", NOON)
        await store.queue.follow_schedules([planned], now=NOON)

    fill(follow)
    (line,) = (line for line in listed(capsys) if line["schedule"])
    narrow = on_a_terminal("handlers", "list", columns=80)[1]

    assert (line["name"], line["next_run"]) == ("handlers.report", "2026-08-04T12:00:00.000000Z")
    assert f"next run {local_time(NOON)}, cron 0 9 * * 1 UTC" in narrow


def test_code_that_cannot_be_imported_is_reported_and_the_store_is_listed(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 0, since the store can be read without the code. `registered` is then unknown."""
    fill(busy)
    Path(f"{code}.py").write_text("import nothing_like_this\n")

    assert [line["registered"] for line in listed(capsys)] == [None, None, None]
    assert invoke("list") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split()[:3] == ["handlers.old.index", "on", "?"]
    assert err == (
        f"receiver: {code} does not import: No module named 'nothing_like_this' ({code}.py:1); "
        "only handlers that the store knows are used\n"
    )


def test_prints_of_the_code_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the output."""
    made(DONE)

    assert invoke("list", "--json") == 0
    out, err = capsys.readouterr()
    assert "noise" not in out
    assert "noise at import" in err


def test_another_router_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """--handlers works as in every command that imports handlers."""
    made(DONE)
    Path("elsewhere.py").write_text("from receiver import Router\nrouter = Router()\n")

    assert [line["name"] for line in listed(capsys, "--handlers", "elsewhere:router")] == [SAVE]


def test_without_any_handler_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The remark is on standard error, and the exit code is 0."""
    fill()
    Path("empty_one.py").write_text("from receiver import Router\nrouter = Router()\n")

    assert invoke("list", "--handlers", "empty_one:router") == 0
    assert capsys.readouterr() == ("", "no handler is in the code or in the store\n")


def test_no_text_from_outside_can_control_the_terminal(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """This holds for errors of handlers, errors of the import, and names on the command line."""
    evil = "\x1b]0;owned\x07\u202e"
    fill(lambda store: store.item(DEAD, attempt=ended(evil)), lambda store: store.item(WAITING, HandlerName(evil)))
    Path(f"{code}.py").write_text(f"raise ValueError({evil!r})")

    invoke("list")
    invoke("pause", evil)
    invoke("disable", evil, "--dry-run")
    invoke("resume", evil + "x", "*" + evil)
    seen = "".join(capsys.readouterr()) + on_a_terminal("handlers", "list", columns=150)[1]

    assert [char for char in seen if not char.isprintable() and char != "\n"] == []
    assert seen.count("\\x1b]0;owned\\x07\\u202e") > 4


# --- pause, resume, disable


def test_a_paused_handler_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command says what follows for the work. A second call changes nothing and says so."""
    made(WAITING, HELD)

    assert invoke("pause", SAVE) == 0
    assert invoke("pause", SAVE) == 0
    assert capsys.readouterr() == (
        "handlers.pages.save is paused: its work waits until it is resumed (2 items now)\n"
        "handlers.pages.save was already paused: its work waits until it is resumed (2 items now)\n",
        "",
    )
    assert switches(capsys)[SAVE] == "paused"

    assert invoke("resume", SAVE) == 0
    assert invoke("resume", SAVE) == 0
    assert capsys.readouterr().out == (
        "handlers.pages.save is on; 2 items can run\nhandlers.pages.save was already on; 2 items can run\n"
    )
    assert switches(capsys)[SAVE] == "on"


def test_a_handler_that_has_had_no_work_can_be_paused(capsys: pytest.CaptureFixture[str]) -> None:
    """The code has the handler."""
    made(DONE)

    assert invoke("pause", TELL) == 0
    assert capsys.readouterr().out == "handlers.chat.tell is paused: its work waits until it is resumed\n"


def test_a_handler_of_broken_code_can_be_paused(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The store knows the handler, so the code is not imported."""
    made(WAITING)
    Path(f"{code}.py").write_text("import nothing_like_this\n")

    assert invoke("pause", SAVE) == 0
    assert capsys.readouterr().err == ""


def test_globs_match_several_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    """They match handlers of the code and of the store. A handler with two matches is switched once."""
    fill(busy)

    assert invoke("pause", "handlers.*", SAVE) == 0
    assert capsys.readouterr().out.count("\n") == 4
    assert set(switches(capsys).values()) == {"paused"}

    assert invoke("resume", "*.save", "*.older") == 0
    assert capsys.readouterr().out.count(" is on") == 2
    assert switches(capsys) == {
        "handlers.chat.tell": "paused",
        "handlers.old.index": "paused",
        "handlers.older": "on",
        "handlers.pages.save": "on",
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("save", "unknown handler 'save'; did you mean handlers.pages.save? `receiver handlers list` lists all"),
        ("handlers.page.save", "did you mean handlers.pages.save"),
        ("zzz", "unknown handler 'zzz'. `receiver handlers list` lists all"),
        ("zzz.*", "no handler matched 'zzz.*'; `receiver handlers list` lists all"),
    ],
)
@pytest.mark.parametrize("command", [("pause",), ("resume",), ("disable", "--yes")])
def test_an_unknown_name_changes_nothing(
    command: tuple[str, ...], name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, one line names similar handlers, and no handler is switched."""
    fill(busy, lambda store: store.controls.switch(SAVE, HandlerSwitch.DISABLED))

    assert invoke(*command, SAVE, TELL, name) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert words in err.splitlines()[-1]
    assert err.replace("noise at import\n", "").count("\n") == 1
    assert switches(capsys)[SAVE] == "disabled"
    assert switches(capsys)[TELL] == "on"


def test_disable_shows_the_work_to_skip(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has every handler, and says that no worker skips the work of a handler that is not in the code."""
    fill(busy)

    assert invoke("disable", SAVE, OLD, "--dry-run") == 0
    assert capsys.readouterr().out == (
        "2 handlers to disable, 4 waiting items to skip\n"
        "              2  handlers.old.index\n"
        "                 not in the code, so no worker skips these: bury them\n"
        "              2  handlers.pages.save\n"
    )
    assert switches(capsys)[SAVE] == "on"


def test_disable_asks(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal it needs `--yes`; otherwise nothing is switched."""
    made(WAITING)

    assert invoke("disable", SAVE) == 2
    assert "there is no terminal to ask: add --yes to continue" in capsys.readouterr().err
    assert on_a_terminal("handlers", "disable", SAVE, answer="n\n")[0] == 1
    assert switches(capsys)[SAVE] == "on"

    code, seen = on_a_terminal("handlers", "disable", SAVE, answer="y\n")
    assert code == 0
    assert "Disable 1 handler? [y/N]: " in seen
    assert switches(capsys)[SAVE] == "disabled"


def test_resume_says_how_to_run_skipped_work(capsys: pytest.CaptureFixture[str]) -> None:
    """Skipped work runs only after a retry."""
    fill(
        lambda store: store.items(3, SKIPPED),
        lambda store: store.controls.switch(SAVE, HandlerSwitch.DISABLED),
        lambda store: store.controls.switch(TELL, HandlerSwitch.DISABLED),
    )

    assert invoke("resume", SAVE, TELL) == 0
    assert capsys.readouterr().out == (
        "handlers.chat.tell is on; "
        "`receiver work-items retry --handler handlers.chat.tell --state skipped` runs skipped items\n"
        "handlers.pages.save is on; "
        "`receiver work-items retry --handler handlers.pages.save --state skipped` runs 3 skipped items\n"
    )
    assert run(receiver.main, ["work-items", "retry", "--handler", SAVE, "--state", "skipped", "--yes"]) == 0
    assert capsys.readouterr().out.endswith("retried 3 work items\n")


def test_a_name_is_quoted_for_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    """The printed command can be pasted."""
    local = HandlerName("shop.made.<locals>.save")
    made(SKIPPED, handler=local)

    assert invoke("resume", local) == 0
    assert "--handler 'shop.made.<locals>.save' --state skipped`" in capsys.readouterr().out


@pytest.mark.parametrize("command", [("list",), ("list", "--json"), ("pause", "x"), ("disable", "x", "--yes")])
def test_without_a_database_no_file_is_made(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 3, and the message is one line."""
    before = set(Path().iterdir())

    assert invoke(*command, "--store", "sqlite:///nowhere.db") == 3

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "nowhere.db" in err
    assert set(Path().iterdir()) == before


# --- what is left of handlers that are gone


def test_check_reports_waiting_work_of_removed_handlers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each gets one line with advice, and the exit code is 0."""
    monkeypatch.setenv("RECEIVER_SECRETS", "a-secret")
    fill(busy)

    assert run(receiver.main, ["check"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "not in the code" in line]
    assert notes == [
        "note      handlers.old.index is not in the code: its 2 waiting items stay until it is back, or until "
        "`receiver work-items bury --handler handlers.old.index --reason TEXT`"
    ]

    assert run(receiver.main, ["work-items", "bury", "--handler", OLD, "--reason", "gone", "--yes"]) == 0
    assert run(receiver.main, ["check"]) == 0
    assert "not in the code" not in capsys.readouterr().out


# --- with a worker in another process


@asynccontextmanager
async def working(deployment: Deployment) -> AsyncIterator[Program]:
    """Start a worker for a block."""
    async with deployment.start("work") as program:
        await program.line("worker_started")
        yield program


RECORDING = f"""
from pathlib import Path
from receiver import Router

router = Router()

@router.on("*", name="{SAVE}")
def save(event):
    with Path("handled").open("a") as out:
        out.write("handled\\n")
"""


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """A folder in which a worker can run, with the store of the test."""
    made = Deployment(tmp_path, store="sqlite:///kept.db")
    made.database = tmp_path / "kept.db"
    made.write_handlers(RECORDING)
    return made


async def test_a_worker_reports_waiting_work_of_removed_handlers_once(deployment: Deployment) -> None:
    """It is one line at the start."""
    await filled(lambda store: store.items(20, WAITING, OLD))
    await filled(lambda store: store.items(3, WAITING, HandlerName("gone"), key="other-{}"))

    async with working(deployment) as program:
        line = await program.line("work_without_handler")
        await filled(lambda store: appended(store.log, delivery("last")))
        await until(lambda: (deployment.folder / "handled").exists(), "the handler to run")

    assert "waiting={'gone': 3, 'handlers.old.index': 20}" in line
    assert "restore the handlers, or use `receiver work-items bury --handler NAME --reason TEXT`" in line
    assert program.output.count("work_without_handler") == 1


async def test_pausing_and_resuming_reach_a_worker_in_another_process(deployment: Deployment) -> None:
    """They also reach a worker that starts later. The work that waited runs after the resume."""
    await filled(lambda store: store.item(DONE))
    assert deployment.run("handlers", "pause", SAVE).code == 0

    async with working(deployment):
        await filled(lambda store: appended(store.log, delivery("new-1")))
        await until(lambda: work(deployment) == ["done", "waiting"], "the delivery to be routed")
    async with working(deployment):
        paused = deployment.run("handlers", "pause", SAVE)
        assert "was already paused: its work waits until it is resumed (1 item now)" in paused.text
        assert deployment.run("handlers", "resume", SAVE).code == 0
        await until(lambda: work(deployment) == ["done", "done"], "what has piled up to run")


async def test_disable_skips_waiting_and_new_work(deployment: Deployment) -> None:
    """A worker records the work as skipped, and a retry after the resume runs it."""
    await filled(lambda store: store.controls.switch(SAVE, HandlerSwitch.PAUSED))
    await filled(lambda store: store.item(WAITING))

    async with working(deployment):
        assert deployment.run("handlers", "disable", SAVE, "--yes").code == 0
        await until(lambda: work(deployment) == ["skipped"], "what waited to be skipped")
        await filled(lambda store: appended(store.log, delivery("new-1")))
        await until(lambda: work(deployment) == ["skipped"] * 2, "what comes to be skipped")
        assert "runs 2 skipped items" in deployment.run("handlers", "resume", SAVE).text
        retried = deployment.run("work-items", "retry", "--handler", SAVE, "--state", "skipped", "--yes")
        assert retried.text.endswith("retried 2 work items\n")
        await until(lambda: work(deployment) == ["done"] * 2, "what was skipped to run")


def work(deployment: Deployment) -> list[str]:
    """Return the states of all work items, in the order of their ids."""
    return [state for (state,) in deployment.rows("SELECT state FROM work_items ORDER BY id")]
