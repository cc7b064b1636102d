"""`receiver work-items list` and `show`, run as a user runs them, on a real database."""

import asyncio
import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.cli.main import receiver, run
from receiver.cli.work_items import readable
from receiver.core.clock import local_time
from receiver.core.types import AttemptOutcome, DeliveryKey, Trigger, WorkState
from receiver.core.views import work_detail
from receiver.core.work import LOST, Attempt, WorkDetail, WorkSummary
from receiver.core.work_states import MOVES
from tests.cli.kept import (
    DEAD,
    DONE,
    HELD,
    NOON,
    QUEUED,
    RUNNING,
    SAVE,
    SKIPPED,
    TELL,
    WAITING,
    Filling,
    ended,
    fill,
    filling,
    made,
    on_a_terminal,
)

pytestmark = pytest.mark.usefixtures("configured")


def invoke(*args: str) -> int:
    return run(receiver.main, ["work-items", *args])


def listed(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    assert invoke("list", "--json", *args) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def six(configured: None) -> None:
    """Work items in six states arrive a minute apart."""

    async def run_all() -> None:
        async with filling() as store:
            await store.item(DONE)
            await store.item(DEAD, minutes=1, lane="lane-1", holds_lane=True)
            await store.item(QUEUED, minutes=2, lane="lane-1", type="agent.action", job_id="job-2")
            await store.item(HELD, TELL, minutes=3, type="crawl.completed", note="1 page of the job is not handled")
            await store.item(SKIPPED, TELL, minutes=4)
            await store.item(WAITING, minutes=5, job_id=None)

    asyncio.run(run_all())


@pytest.mark.usefixtures("six")
def test_the_listing_as_json_has_one_object_per_item_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Each object has all fields in this order; a missing value is null."""
    lines = listed(capsys)

    assert [line["id"] for line in lines] == [6, 5, 4, 3, 2, 1]
    assert list(lines[0]) == [
        "id",
        "delivery_id",
        "type",
        "job_id",
        "received_at",
        "handler",
        "state",
        "attempts",
        "lane",
        "due_at",
        "last_error",
        "note",
        "behind",
    ]
    assert lines[2] == {
        "id": 4,
        "delivery_id": "key-4",
        "type": "crawl.completed",
        "job_id": "job-1",
        "received_at": "2026-08-04T12:03:00.000000Z",
        "handler": "handlers.chat.tell",
        "state": "held",
        "attempts": 0,
        "lane": None,
        "due_at": "2026-08-04T12:02:00.000000Z",
        "last_error": None,
        "note": "1 page of the job is not handled",
        "behind": None,
    }
    assert lines[4] == {
        "id": 2,
        "delivery_id": "key-2",
        "type": "crawl.page",
        "job_id": "job-1",
        "received_at": "2026-08-04T12:01:00.000000Z",
        "handler": "handlers.pages.save",
        "state": "dead",
        "attempts": 1,
        "lane": "lane-1",
        "due_at": None,
        "last_error": "ValueError: no such page",
        "note": None,
        "behind": None,
    }
    assert lines[3]["behind"] == {"id": 2, "state": "dead", "ended_at": "2026-08-04T12:00:00.250000Z"}


@pytest.mark.usefixtures("six")
@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (("--type", "agent.*"), [3]),
        (("--job", "job-2"), [3]),
        (("--since", "2026-08-04T12:04:00Z"), [6, 5]),
        (("--until", "2026-08-04T12:01:00Z"), [1]),
        (("--handler", "*.tell"), [5, 4]),
        (("--handler", "handlers.chat.tell", "--state", "held"), [4]),
        (("--limit", "2"), [6, 5]),
        (("--handler", "tell"), []),
        (("--handler", "tell", "--handler", "*.tell"), [5, 4]),
        *((("--state", state), [number]) for number, state in enumerate(
            ("done", "dead", "queued", "held", "skipped", "waiting"), start=1
        )),
        (("--state", "running"), []),
    ],
)  # fmt: skip
def test_filters_narrow_the_listing_together(
    filters: tuple[str, ...], ids: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """They are the filters of events, with states of work items and --handler as a glob."""
    assert [line["id"] for line in listed(capsys, *filters)] == ids


@pytest.mark.usefixtures("six")
def test_an_item_behind_a_blocked_lane_says_for_which_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    """The listing and the details of the item say it, and since when the other is dead."""
    words = f"waits for #2, dead since {local_time(NOON)}"

    assert invoke("list", "--state", "queued") == 0
    assert capsys.readouterr().out.endswith(f" {words}\n")
    assert invoke("show", "3") == 0
    assert words in capsys.readouterr().out


def test_a_state_of_deliveries_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists the valid states."""
    assert invoke("list", "--state", "working") == 2
    assert "'waiting', 'queued', 'held', 'running', 'done', 'dead', 'skipped'" in capsys.readouterr().err


@pytest.mark.usefixtures("six")
def test_the_listing_for_people_has_aligned_lines_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    """Each item is a line with whole ids and `-` for a missing value. It ends with the error or the note."""
    assert invoke("list") == 0

    out, err = capsys.readouterr()
    head, *lines = out.splitlines()
    assert head.split()[:3] == ["id", "received", "type"]
    assert lines[4].split(maxsplit=9) == [
        "2",
        local_time(NOON + timedelta(minutes=1)),
        "crawl.page",
        "key-2",
        "job-1",
        "handlers.pages.save",
        "dead",
        "1",
        "-",
        "ValueError: no such page",
    ]
    assert lines[2].endswith(
        f"held    0        {local_time(NOON + timedelta(minutes=2))} 1 page of the job is not handled"
    )
    assert lines[0].split()[4] == "-"
    assert len({line.index(" handlers.") for line in lines}) == 1
    assert err == ""


def test_a_listing_on_a_terminal_ends_after_fifty_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets all, for a count of its lines."""
    fill(lambda store: store.items(51, WAITING))

    assert invoke("list") == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (1 + 51, "")

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert invoke("list", "--wide") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + 50
    assert "only the newest 50 are shown; --limit N" in err
    assert len(listed(capsys)) == 51


def test_an_empty_listing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The remark is on standard error, and the exit code is 0."""
    made(DONE)

    assert invoke("list", "--handler", "nobody") == 0
    assert capsys.readouterr() == ("", "no work item matched\n")


@pytest.mark.usefixtures("six")
def test_the_listing_on_a_terminal_is_a_table() -> None:
    """It has as many columns as fit. A long handler name keeps its end."""
    narrow = on_a_terminal("work-items", "list", columns=80)[1].splitlines()
    wide = on_a_terminal("work-items", "list", columns=180)[1].splitlines()

    assert {"id", "received", "handler", "state"} <= set(narrow[0].split())
    assert "…handlers.pages.save" not in "".join(narrow)
    row = next(line for line in narrow if line.startswith("2 "))
    assert [word for word in row.split() if word in ("handlers.pages.save", "dead")] == [
        "handlers.pages.save",
        "dead",
    ]
    assert "    ValueError: no such page" in narrow
    assert "    waits for #2, dead since " in "\n".join(narrow)
    assert max(map(len, narrow[:-1])) <= 80
    for title in ("type", "attempts", "due", "why", "job_id", "delivery_id"):
        assert title in wide[0]
    assert "1 page of the job is not handled" in wide[3]


def test_a_long_name_of_a_handler_loses_its_beginning() -> None:
    """The end is the function, which differs more than the module."""
    from receiver.core.types import HandlerName

    made(DONE, handler=HandlerName("shop.handlers.of.pages.save_everything"))

    _, seen = on_a_terminal("work-items", "list", columns=80)
    assert "pages.save_everything" in seen
    assert "…" in seen


EVIL = "\x1b]0;owned\x07\x9b2J\u202e[red]"


async def evil(store: Filling) -> None:
    await store.item(
        DEAD,
        type=EVIL,
        job_id=EVIL,
        lane=EVIL,
        holds_lane=True,
        attempt=ended(EVIL, traceback=f"Traceback\n  {EVIL}\r\n{EVIL}"),
    )
    await store.item(HELD, note=EVIL)


def test_no_text_from_outside_can_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """This holds for the listing, the table, the details of one item, and a plan."""
    fill(evil)

    invoke("list")
    invoke("show", "1")
    invoke("show", "2")
    invoke("retry", "--handler", "*", "--dry-run")
    seen = capsys.readouterr().out
    for args in (("list",), ("show", "1"), ("bury", "--handler", "*", "--reason", EVIL, "--dry-run")):
        seen += on_a_terminal("work-items", *args, columns=180)[1]

    assert [char for char in seen if not char.isprintable() and char != "\n"] == []
    assert seen.count("\\x1b]0;owned\\x07\\x9b2J\\u202e") > 10


# --- show


def shown(capsys: pytest.CaptureFixture[str], work_id: int) -> dict[str, Any]:
    assert invoke("show", str(work_id), "--json") == 0
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read


def test_show_as_json_has_the_listing_and_every_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    """It also shows whether a dead item holds its lane. The name of a number has its unit."""
    attempt = ended("ValueError: no", seconds=61.5, traceback="Traceback\n  there", overdue=True)
    fill(lambda store: store.item(DEAD, lane="lane-1", holds_lane=True, attempt=attempt))
    (line,) = listed(capsys)

    read = shown(capsys, 1)
    assert read == line | {
        "holds_lane": True,
        "history": [
            {
                "number": 1,
                "trigger": "delivery",
                "started_at": "2026-08-04T12:00:00.000000Z",
                "ended_at": "2026-08-04T12:01:01.500000Z",
                "duration_seconds": 61.5,
                "outcome": "failed",
                "error": "ValueError: no",
                "overdue": True,
                "traceback": "Traceback\n  there",
            }
        ],
    }
    assert list(read)[-2:] == ["holds_lane", "history"]


def test_show_prints_everything_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows the delivery, the state, each attempt with its traceback, and helpful commands."""
    attempt = ended(
        "ValueError: no\nway", seconds=61.5, traceback="Traceback\n  there\nValueError: no", overdue=True
    )
    fill(lambda store: store.item(DEAD, lane="lane-1", holds_lane=True, attempt=attempt))

    assert invoke("show", "1") == 0
    assert capsys.readouterr().out == (
        "id           1\n"
        "delivery_id  key-1\n"
        "type         crawl.page\n"
        "job_id       job-1\n"
        f"received_at  {local_time(NOON)}\n"
        "handler      handlers.pages.save\n"
        "state        dead\n"
        "attempts     1\n"
        "lane         lane-1\n"
        "due_at       -\n"
        "last_error   ValueError: no\\nway\n"
        "note         -\n"
        "\n"
        "attempts\n"
        f"  1  delivery  {local_time(NOON, 'milliseconds')}  "
        f"ended {local_time(NOON + timedelta(seconds=61.5), 'milliseconds')} after 1 min 1 s  failed  "
        "overdue: it ran longer than its time-out\n"
        "       ValueError: no\\nway\n"
        "       | Traceback\n"
        "       |   there\n"
        "       | ValueError: no\n"
        "\n"
        "Its lane stands still until `receiver work-items retry 1` or `receiver work-items bury 1 --reason TEXT`.\n"
    )


def detail(state: WorkState, *attempts: Attempt, **changes: Any) -> WorkDetail:
    values: dict[str, Any] = {
        "id": 7,
        "key": DeliveryKey("key-1"),
        "type": "crawl.page",
        "job_id": None,
        "received_at": NOON,
        "handler": SAVE,
        "state": state,
        "attempts": len(attempts),
        "lane": None,
        "due_at": None,
        "last_error": None,
        "note": None,
    }
    return WorkDetail(WorkSummary(**values | changes), attempts)


@pytest.mark.parametrize(
    ("state", "changes", "words"),
    [
        (WAITING, {"attempts": 0}, "none yet"),
        (QUEUED, {"attempts": 0}, "none yet"),
        (RUNNING, {"attempts": 1}, "  1  runs now"),
        (HELD, {"note": "2 pages are not handled"}, "note         2 pages are not handled"),
        (WAITING, {"due_at": NOON}, f"due_at       {local_time(NOON)}"),
        (SKIPPED, {}, "`receiver work-items retry 7` runs it again."),
        (DEAD, {}, "`receiver work-items retry 7` runs it again."),
        (DONE, {"note": "waited for 3 pages"}, "note         waited for 3 pages"),
    ],
)
def test_show_says_what_each_state_means(state: WorkState, changes: dict[str, Any], words: str) -> None:
    """Only dead and skipped items need advice."""
    lines = readable(detail(state, **changes))

    assert any(words in line for line in lines)
    assert any("runs it again" in line for line in lines) == (state in (DEAD, SKIPPED))


def test_a_lost_attempt_has_no_duration() -> None:
    """Its worker died, so its start is unknown."""
    lost = Attempt(1, Trigger.DELIVERY, None, NOON, AttemptOutcome.LOST, LOST)
    second = ended(number=2, trigger=Trigger.RETRY, seconds=-1)
    shown_item = detail(DONE, lost, second)

    lines = "\n".join(readable(shown_item))
    at_noon, before = (local_time(NOON - timedelta(seconds=seconds), "milliseconds") for seconds in (0, 1))
    assert f"  1  delivery  start unknown  ended {at_noon}  lost\n       the worker died" in lines
    assert f"  2  retry  {at_noon}  ended {before} after 0 ms  succeeded" in lines
    assert [one["duration_seconds"] for one in work_detail(shown_item)["history"]] == [None, 0.0]


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_unknown_id_is_an_error(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1, the message is one line, and standard output is empty."""
    made(DONE)

    assert invoke("show", "12", *flags) == 1
    assert capsys.readouterr() == ("", "receiver: there is no work item 12\n")


@pytest.mark.parametrize("written", ["x", "-1", "1.5", "9223372036854775808", ""])
def test_an_invalid_id_is_wrong_use(written: str) -> None:
    """This includes a number too large for a database."""
    made(DONE)

    assert invoke("show", "--", written) == 2


COMMANDS = [
    ("list",),
    ("list", "--json"),
    ("show", "1"),
    ("retry", "1", "--yes"),
    ("retry", "--handler", "*", "--yes"),
    ("bury", "--handler", "*", "--reason", "x", "--yes"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_database_no_file_is_made(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 3, the message is one line, and the folder stays empty."""
    assert invoke(*command, "--store", "sqlite:///nowhere.db") == 3

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "nowhere.db" in err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_foreign_database_is_refused(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 3, the message is one line, and the file does not change."""
    Path("other.db").write_text("no database")

    assert invoke(*command, "--store", "sqlite:///other.db") == 3

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "other.db" in err
    assert Path("other.db").read_text() == "no database"


def test_durations_have_their_two_largest_units() -> None:
    """The units go from milliseconds to days."""
    from receiver.cli.common.output import duration

    told = [duration(timedelta(seconds=seconds)) for seconds in (0, 0.0124, 3.42, 59.94, 125, 5400, 273_600)]
    assert told == ["0 ms", "12 ms", "3.4 s", "59.9 s", "2 min 5 s", "1 h 30 min", "3 d 4 h"]


def test_a_listing_ends_when_its_reader_ends() -> None:
    """A closed pipe is success, as after `head`."""
    fill(lambda store: store.items(3_000, DEAD))

    with subprocess.Popen(
        [sys.executable, "-m", "receiver", "work-items", "list", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith('{"id":3000,')
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()

    assert (process.returncode, err) == (0, "")


def test_the_columns_of_states_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Also those of the longest cause, with at least two spaces."""
    assert invoke("states") == 0

    rows = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert {len(row) for row in rows} == {4}
    assert [(before, cause, after) for before, cause, after, _ in rows[1:]] == [
        (before or "-", cause, after) for (before, cause), after in MOVES.items()
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_table_of_states_fits_into_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A meaning goes on below itself, or below its row on a narrow terminal. A pipe has one line for each row."""
    assert invoke("states") == 0
    plain = capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    assert invoke("states") == 0

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines()[1:])) <= width
    assert shown.split() == plain.split()
