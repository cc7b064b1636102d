"""`receiver work-items retry` and `bury`, run as a user runs them, on a real database."""

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest

from receiver.cli.main import receiver, run
from receiver.core.choosing import CHUNK
from receiver.core.clock import local_time
from receiver.core.types import HandlerName, HandlerSwitch
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
    fill,
    items,
    made,
    on_a_terminal,
    states,
)
from tests.doubles import LONG

pytestmark = pytest.mark.usefixtures("configured")

ALL = ("--handler", "*")
BURY = ("bury", "--reason", "no use")


def invoke(*args: str) -> int:
    return run(receiver.main, ["work-items", *args])


@pytest.fixture
def every_state(configured: None) -> None:
    """Work items 1 to 8: every state, and a dead one that holds its lane with one queued behind it."""

    async def step(store: Filling) -> None:
        for state in (WAITING, HELD, RUNNING, DONE, DEAD, SKIPPED):
            await store.item(state)
        await store.item(DEAD, TELL, lane="lane-1", holds_lane=True, minutes=1, type="crawl.failed")
        await store.item(QUEUED, TELL, lane="lane-1", minutes=2)

    fill(step)


EVERY_STATE = ["waiting", "held", "running", "done", "dead", "skipped", "dead", "queued"]


# --- retry


@pytest.mark.usefixtures("every_state")
def test_retry_takes_dead_and_skipped_items_and_shows_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has counts by handler, type and state, the span of time, and the newest three."""
    assert invoke("retry", *ALL, "--yes") == 0

    assert capsys.readouterr() == (
        "3 work items to retry\n"
        "  by handler\n"
        "              2  handlers.pages.save\n"
        "              1  handlers.chat.tell\n"
        "  by type\n"
        "              2  crawl.page\n"
        "              1  crawl.failed\n"
        "  by state\n"
        "              2  dead\n"
        "              1  skipped\n"
        f"  arrived   {local_time(NOON)} to {local_time(NOON + timedelta(minutes=1))}\n"
        f"  first     7  {local_time(NOON + timedelta(minutes=1))}  crawl.failed  handlers.chat.tell  dead"
        "  ValueError: no such page\n"
        f"            6  {local_time(NOON)}  crawl.page  handlers.pages.save  skipped\n"
        f"            5  {local_time(NOON)}  crawl.page  handlers.pages.save  dead  ValueError: no such page\n"
        "retried 3 work items\n",
        "",
    )
    assert states() == ["waiting", "held", "running", "done", "waiting", "waiting", "waiting", "queued"]


@pytest.mark.usefixtures("every_state")
@pytest.mark.parametrize(
    ("filters", "changed"),
    [
        (("--state", "dead"), [5, 7]),
        (("--state", "skipped"), [6]),
        (("--state", "held"), [2]),
        (("--state", "dead", "--handler", "*.tell"), [7]),
        (("--type", "crawl.failed"), [7]),
        (("--job", "job-1", "--limit", "2"), [6, 7]),
        (("--since", "2026-08-04T12:01:00Z"), [7]),
        (("--until", "2026-08-04T12:01:00Z", "--limit", "1"), [6]),
    ],
)
def test_filters_choose_the_items_to_retry(filters: tuple[str, ...], changed: list[int]) -> None:
    """They choose dead and skipped items, or those of --state. --limit takes the newest of all."""
    assert invoke("retry", *filters, "--yes") == 0

    assert states() == ["waiting" if n in changed else state for n, state in enumerate(EVERY_STATE, start=1)]


@pytest.mark.usefixtures("every_state")
def test_waiting_items_are_retried_when_that_state_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """They are then due at once."""
    before = items()[0].due_at

    assert invoke("retry", "--state", "waiting", "--yes") == 0

    assert "retried 1 work item\n" in capsys.readouterr().out
    after = items()[0].due_at
    assert before is not None
    assert after is not None
    assert after > before


@pytest.mark.parametrize("state", ["running", "done", "queued", "working"])
def test_states_that_cannot_be_retried_are_wrong_use(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists those that can."""
    assert invoke("retry", "--state", state, "--yes") == 2
    assert "'waiting', 'held', 'dead', 'skipped'" in capsys.readouterr().err


@pytest.mark.usefixtures("every_state")
def test_ids_choose_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    """Items that cannot be retried are counted and left alone. A repeated id is one item."""
    assert invoke("retry", "1", "5", "5", "3", "4", "8", "--yes") == 0

    out = capsys.readouterr().out
    assert out.startswith("2 work items to retry\n")
    assert "\n  left out  1 queued, 1 done, 1 running\n" in out
    assert out.endswith(
        "retried 2 work items; 3 left alone: they run now, are queued in their lane, or have ended\n"
    )
    assert states() == ["waiting", "held", "running", "done", "waiting", "skipped", "dead", "queued"]


@pytest.mark.usefixtures("every_state")
def test_an_unknown_id_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is changed, the exit code is 1, and the message is one line."""
    assert invoke("retry", "5", "99", "--yes") == 1

    assert capsys.readouterr() == ("", "receiver: there is no work item 99\n")
    assert states() == EVERY_STATE


@pytest.mark.usefixtures("every_state")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "choose the work items to retry: give their IDs, or at least one filter"),
        (("--limit", "5"), "choose the work items to retry"),
        (("--yes", "--limit", "1"), "choose the work items to retry"),
        (("5", "--state", "dead"), "choose by IDs or by filters, not by both"),
        (("5", "--limit", "1"), "choose by IDs or by filters, not by both"),
    ],
)
def test_everything_is_not_chosen_by_accident(
    args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """At least one filter is needed; `--handler '*'` chooses everything."""
    assert invoke("retry", *args) == 2
    out, err = capsys.readouterr()
    assert words in " ".join(err.split())
    assert out == ""

    assert invoke(*BURY, *args) == 2
    assert words.replace("retry", "bury") in " ".join(capsys.readouterr().err.split())
    assert states() == EVERY_STATE


@pytest.mark.usefixtures("every_state")
def test_without_a_terminal_it_needs_yes(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is shown, the message says what to add, and nothing is changed."""
    for command in (("retry", "5"), (*BURY, *ALL)):
        assert invoke(*command) == 2
        out, err = capsys.readouterr()
        assert f"to {command[0]}\n" in out
        assert "there is no terminal to ask: add --yes to continue, or --dry-run to see the plan" in err
    assert states() == EVERY_STATE


@pytest.mark.usefixtures("every_state")
@pytest.mark.parametrize("flags", [("--dry-run",), ("--dry-run", "--yes")])
def test_a_dry_run_stops_after_the_plan(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """It is a success, and asks nobody."""
    assert invoke("retry", *ALL, *flags) == 0
    assert invoke(*BURY, *ALL, *flags) == 0

    out, err = capsys.readouterr()
    assert "3 work items to retry" in out
    assert "4 work items to bury" in out
    assert "retried" not in out
    assert err == ""
    assert states() == EVERY_STATE


def test_without_a_match_it_says_so_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists the states that the action takes."""
    made(DONE, RUNNING)

    assert invoke("retry", *ALL, "--yes") == 0
    assert capsys.readouterr() == ("", "no work item matched; retry takes waiting, held, dead or skipped items\n")
    assert invoke("retry", "1", "2", "--yes") == 0
    assert capsys.readouterr() == (
        "",
        "nothing to retry: 1 running, 1 done; retry takes waiting, held, dead or skipped items\n",
    )
    assert invoke(*BURY, *ALL, "--yes") == 0
    takes = "bury takes waiting, queued or held items, and dead ones that hold their lane"
    assert capsys.readouterr() == ("", f"no work item matched; {takes}\n")


def test_a_burial_of_the_dead_says_which_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """They are dead already, so it changes only those that hold their lane."""
    made(DEAD)

    assert invoke(*BURY, "1", "--yes") == 0
    takes = "bury takes waiting, queued or held items, and dead ones that hold their lane"
    assert capsys.readouterr() == ("", f"nothing to bury: 1 dead; {takes}\n")


def test_the_plan_names_paused_and_disabled_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    """Work of a disabled handler is skipped again, and work of a paused one waits."""

    async def step(store: Filling) -> None:
        await store.item(DEAD, SAVE)
        await store.item(DEAD, TELL)
        await store.item(DEAD, HandlerName("h.on"))
        await store.controls.switch(SAVE, HandlerSwitch.DISABLED)
        await store.controls.switch(TELL, HandlerSwitch.PAUSED)

    fill(step)

    assert invoke("retry", *ALL, "--dry-run") == 0
    assert [line.strip() for line in capsys.readouterr().out.splitlines() if "note" in line] == [
        "note      handlers.chat.tell is paused: they wait until it is resumed",
        "note      handlers.pages.save is disabled: resume it first, or they are skipped again",
    ]


def test_a_plan_counts_kinds_and_shows_the_most_frequent(capsys: pytest.CaptureFixture[str]) -> None:
    """Types come from outside, so there may be many."""

    async def step(store: Filling) -> None:
        await store.items(2, DEAD, type="crawl.page")
        for number in range(12):
            await store.item(DEAD, type=f"odd.{number}")

    fill(step)

    assert invoke("retry", *ALL, "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("  by type") + 1] == "              2  crawl.page"
    assert "                 and 3 more" in lines


# --- bury


@pytest.mark.usefixtures("every_state")
def test_bury_takes_items_that_have_not_run_and_those_that_stop_a_lane(capsys: pytest.CaptureFixture[str]) -> None:
    """Running and ended items stay. The reason becomes the error of each item without one."""
    assert invoke(*BURY, *ALL, "--yes") == 0

    out, err = capsys.readouterr()
    assert out.startswith("4 work items to bury\n")
    assert out.endswith("buried 4 work items\n")
    assert err == ""
    found = items()
    assert [item.state.value for item in found] == [
        "dead",
        "dead",
        "running",
        "done",
        "dead",
        "skipped",
        "dead",
        "dead",
    ]
    assert [item.last_error for item in found] == [
        "no use",
        "no use",
        None,
        None,
        "ValueError: no such page",
        None,
        "ValueError: no such page",
        "no use",
    ]
    assert not any(item.holds_lane for item in found)


@pytest.mark.usefixtures("every_state")
def test_burying_a_dead_item_lets_its_lane_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    """The next item of the lane can run. A dead item that holds no lane has ended."""
    assert invoke(*BURY, "5", "7", "3", "--yes") == 0

    out = capsys.readouterr().out
    assert "\n  left out  1 running, 1 dead\n" in out or "\n  left out  1 dead, 1 running\n" in out
    assert out.endswith("buried 1 work item; 2 left alone: they run now or have ended\n")
    assert states()[6:] == ["dead", "waiting"]


@pytest.mark.usefixtures("every_state")
def test_dead_items_that_hold_their_lanes_can_be_chosen_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """This works with --limit, which counts only items that can be buried."""
    assert invoke(*BURY, "--state", "dead", "--limit", "1", "--dry-run") == 0
    assert "\n  first     7  " in capsys.readouterr().out


@pytest.mark.parametrize("reason", [(), ("--reason", ""), ("--reason", "  ")])
def test_burying_needs_a_reason(reason: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """People read it later on the dead item."""
    made(WAITING)

    assert invoke("bury", *ALL, *reason, "--yes") == 2
    assert "reason" in capsys.readouterr().err
    assert states() == ["waiting"]


# --- order within lanes


def test_retried_items_of_a_lane_come_in_the_order_of_arrival() -> None:
    """This also holds for several transactions: the oldest item runs first."""
    count = CHUNK + 20

    async def step(store: Filling) -> None:
        for _ in range(count):
            await store.item(DEAD, lane="lane-1")

    fill(step)

    assert invoke("retry", *ALL, "--yes") == 0
    assert states() == ["waiting"] + ["queued"] * (count - 1)


def test_a_lane_is_buried_from_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise an item could run before it is buried."""
    fill(
        lambda store: store.item(DEAD, lane="lane-1", holds_lane=True),
        lambda store: store.items(CHUNK + 20, QUEUED, lane="lane-1"),
    )
    execute(
        """CREATE TRIGGER forward AFTER UPDATE ON work_items WHEN NEW.state = 'waiting'
        BEGIN SELECT RAISE(ABORT, 'one came forward'); END"""
    )

    assert invoke(*BURY, *ALL, "--yes") == 0
    assert "buried 521 work items\n" in capsys.readouterr().out
    assert states() == ["dead"] * (CHUNK + 21)


def execute(statement: str) -> None:
    """Change the database from outside."""
    with closing(sqlite3.connect("kept.db", isolation_level=None)) as connection:
        connection.execute(statement)


# --- being stopped


def test_after_an_error_it_says_how_many_were_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """Complete transactions stay, and the same command continues."""
    fill(lambda store: store.items(2 * CHUNK + 1, DEAD))
    execute(
        f"""CREATE TRIGGER broken AFTER UPDATE ON work_items WHEN NEW.id = {CHUNK + 1}
        BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END"""
    )

    assert invoke("retry", *ALL, "--yes") == 3
    err = capsys.readouterr().err
    assert err.splitlines()[0] == (
        "stopped: 500 of 1,001 work items were checked, 500 retried; the same command continues with the rest"
    )
    assert "the disk is gone" in err.splitlines()[1]
    assert Counter(states()) == {"waiting": CHUNK, "dead": CHUNK + 1}

    execute("DROP TRIGGER broken")
    assert invoke("retry", *ALL, "--yes") == 0
    assert "retried 501 work items\n" in capsys.readouterr().out


def test_with_a_limit_it_prints_the_rest_of_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """The same limit would take too many."""
    fill(lambda store: store.items(2 * CHUNK, DEAD))
    execute(
        """CREATE TRIGGER broken AFTER UPDATE ON work_items WHEN NEW.id = 1000
        BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END"""
    )

    assert invoke("retry", *ALL, "--limit", "700", "--yes") == 3
    err = capsys.readouterr().err
    assert err.startswith("stopped: 500 of 700 work items were checked, 500 retried; ")
    assert "the same command continues with the rest (--limit 200)\n" in err


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "receiver", "work-items", *args]


def test_ctrl_c_finishes_the_chunk_at_hand_and_the_same_command_continues() -> None:
    """Exit code 130; what it says is what is in the store, and the same command does the rest."""
    fill(lambda store: store.items(3 * CHUNK, DEAD))
    # Each transaction takes long enough for the signal to come while one is being written.
    execute(
        """CREATE TRIGGER slow AFTER UPDATE ON work_items WHEN NEW.state = 'waiting' BEGIN
        SELECT count(*) FROM work_items AS a, (SELECT 1 FROM work_items LIMIT 4) WHERE a.due_at > 0; END"""
    )

    with subprocess.Popen(
        command("retry", *ALL, "--yes"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while "waiting" not in states() and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG)

    assert process.returncode == 130
    changed = Counter(states())["waiting"]
    assert changed in (CHUNK, 2 * CHUNK)
    assert err.rstrip("\n") == (
        f"stopped: {changed:,} of 1,500 work items were checked, {changed:,} retried; "
        "the same command continues with the rest"
    )
    execute("DROP TRIGGER slow")
    assert invoke("retry", *ALL, "--yes") == 0
    assert set(states()) == {"waiting"}


def test_a_closed_output_does_not_stop_the_action() -> None:
    """The user has agreed, so the action goes on without a reader."""
    fill(lambda store: store.items(20, DEAD))

    with subprocess.Popen(
        command("retry", *ALL, "--yes"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()

    assert (process.returncode, err) == (0, "")
    assert set(states()) == {"waiting"}


def test_a_closed_standard_input_is_not_a_terminal() -> None:
    """Some supervisors start programs so."""
    made(DEAD)
    line = ["sh", "-c", 'exec "$@" <&-', "sh", *command("retry", *ALL)]

    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=LONG)

    assert done.returncode == 2
    assert "there is no terminal to ask" in done.stderr
    assert states() == ["dead"]


@pytest.mark.parametrize(
    ("answer", "code", "last", "after"),
    [
        ("y\n", 0, "retried 1 work item", "waiting"),
        ("n\n", 1, "nothing was changed", "dead"),
        ("\n", 1, "nothing was changed", "dead"),
        ("\x03", 130, "nothing was changed", "dead"),
        ("\x04", 130, "nothing was changed", "dead"),
    ],
)
def test_on_a_terminal_it_asks(answer: str, code: int, last: str, after: str) -> None:
    """The question comes after the plan. No is the default; Ctrl-C and the end of input mean no."""
    made(DEAD)

    ended, seen = on_a_terminal("work-items", "retry", *ALL, answer=answer)

    assert ended == code
    assert seen.index("1 work item to retry") < seen.index("Retry 1 work item? [y/N]: ")
    assert seen.splitlines()[-1].endswith(last)
    assert states() == [after]


def test_progress_is_shown_on_a_terminal() -> None:
    """A short action shows no bar."""
    fill(lambda store: store.items(2 * CHUNK, DEAD))

    _, seen = on_a_terminal("work-items", "retry", *ALL, answer="y\n")

    assert " 500/1000" in seen
    assert seen.splitlines()[-1] == "retried 1,000 work items"
