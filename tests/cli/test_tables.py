"""How listings share the room of a terminal, and what becomes of columns that have none."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from receiver.cli.common.tables import NARROW, Column, arranged, cells, cut, moment_column, wrapped
from receiver.cli.main import receiver, run
from receiver.core.units import parse_moment
from tests.cli.kept import DEAD, DONE, SAVE, TELL, ended, fill
from tests.doubles import LONG

NOON = datetime(2026, 8, 4, 12, tzinfo=UTC)
LISTINGS = (
    ("events", "list"),
    ("work-items", "list"),
    ("jobs", "list"),
    ("handlers", "list"),
    ("quarantine", "list"),
)


def text(title: str, width: int, most: int = 0, rank: int = 0, **more: Any) -> Column[str]:
    return Column(title, lambda row: row, 0, width, most, rank, **more)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("head", [0, 0.5, 1])
@pytest.mark.parametrize(
    "written", ["handlers.pages.save", "日本語のとても長い名前", "🚲🚲🚲🚲🚲🚲🚲🚲", "éééééééééééé"]
)
def test_a_cut_cell_has_exactly_its_width(written: str, head: float, width: int) -> None:
    """A Chinese character takes two cells of a terminal, and is never half shown."""
    assert cells(cut(written, width, head)) == width


def test_a_cut_keeps_the_beginning_the_end_or_both() -> None:
    """The mark stands for what is missing."""
    assert [cut("handlers.pages.save", 9, head) for head in (1, 0, 0.5)] == ["handlers…", "…ges.save", "hand…save"]


def test_a_line_is_wrapped_below_its_text() -> None:
    """Only a word that is longer than a line is broken, and a wide character takes two cells."""
    assert wrapped("note  ", "a short one", 17) == wrapped("note  ", "a short one", None) == ["note  a short one"]
    assert wrapped("note  ", "one  two three", 14) == ["note  one  two", "      three"]
    assert wrapped("first  ", "one two", 11, below="    ") == ["first  one", "    two"]
    assert wrapped("| ", "https://a/b c", 10, below="| ") == ["| https://", "| a/b c"]
    assert wrapped("  ", "日本語の名前", 8) == ["  日本語", "  の名前"]


def test_columns_give_way_by_rank() -> None:
    """First the required ones grow up to their most, then others come, and then cells get what they need."""
    columns = [text("id", 4), text("url", 10, most=20), text("size", 6, rank=2), text("error", 8, rank=1)]
    widest = {"id": 4, "url": 60, "size": 6, "error": 30}

    found = arranged(columns, widest, 60)
    assert found is not None
    assert found.widths == {"id": 4, "url": 20, "error": 20, "size": 10} or found.widths["url"] > 20
    assert sum(found.widths.values()) + 2 * (len(found.widths) - 1) <= 60
    roomy = arranged(columns, widest, 200)
    assert roomy is not None
    assert roomy.widths == {"id": 4, "url": 60, "error": 30, "size": 6}


def test_a_column_takes_no_more_than_its_cells_and_title() -> None:
    """The room goes to those that need it."""
    found = arranged([text("state", 7), text("url", 10, most=20)], {"state": 3, "url": 12}, 80)

    assert found is not None
    assert found.widths == {"state": 5, "url": 12}


def test_a_column_without_room_is_folded_or_left_out() -> None:
    """Only a column that can be told below its row folds."""
    columns = [
        text("url", 60),
        text("error", 20, rank=1, below=lambda row: row),
        text("size", 20, rank=2),
    ]

    found = arranged(columns, {"url": 60, "error": 20, "size": 20}, 64)
    assert found is not None
    assert [one.title for one in found.folded] == ["error"]
    assert [one.title for one in found.left_out] == ["size"]


@pytest.mark.parametrize(("room", "width"), [(NARROW - 1, 4), (80, 81)])
def test_without_room_for_what_is_required_there_is_no_table(room: int, width: int) -> None:
    """Nothing that is required is lost: then each row is a record."""
    assert arranged([text("id", width)], {"id": width}, room) is None


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_a_moment_of_a_listing_can_be_pasted_into_since(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe it has its offset, in a table it is local time without the year."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        column: Column[None] = moment_column("at", lambda row: NOON)

        assert parse_moment(column.in_full(None), NOON) == NOON
        assert parse_moment(column.for_table(None), NOON) == NOON
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_moment_without_a_year_is_the_last_such_moment() -> None:
    """In January, December was in the year before; a 29th of February was in a leap year."""
    january = datetime(2027, 1, 5, 12, tzinfo=UTC)

    assert parse_moment("12-31 23:00:00", january).astimezone().year == 2026
    assert parse_moment("01-05T00:00:00", january).astimezone().year == 2027
    assert parse_moment("02-29 08:00:00", january).astimezone().year == 2024


@pytest.fixture
def long_rows(configured: None) -> None:
    """Work of two handlers with long texts in wide characters."""
    error = ended("ValueError: 日本語のとても長い説明 " * 10)
    fill(
        lambda store: store.item(DONE, SAVE, type="monitor.check.completed", job_id="日本語のジョブ"),
        lambda store: store.item(DEAD, TELL, attempt=error, success=False),
    )


Seen = Callable[..., str]


@pytest.fixture
def seen_at(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Return what a command writes to a terminal of this width, 0 for a pipe.

    `on_a_terminal` is slower, and has a real one.
    """

    def seen(columns: int, *args: str) -> str:
        capsys.readouterr()
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: columns > 0)
        assert run(receiver.main, args) == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)

    return seen


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("listing", LISTINGS)
def test_no_line_is_wider_than_the_terminal(listing: tuple[str, str], columns: int, seen_at: Seen) -> None:
    """Every listing has a table from 60 columns on."""
    lines = seen_at(columns, *listing).splitlines()

    assert max(map(cells, lines), default=0) <= columns
    assert not lines or len(lines[0].split()) > 3


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize("columns", [60, 68])
@pytest.mark.parametrize(
    "args",
    [
        ("work-items", "show", "2"),
        ("work-items", "retry", "2", "--dry-run"),
        ("events", "show", "key-2"),
        ("replay", "--handler", "*", "--enqueue", "--dry-run"),
    ],
)
def test_details_and_plans_are_wrapped_for_a_terminal(
    args: tuple[str, ...], columns: int, seen_at: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say the same in a pipe, where no line is broken."""
    monkeypatch.setattr("receiver.cli.replay.command.configure_logs", lambda **_: None)
    Path("own.py").write_text("from receiver import Router\nrouter = Router()\nrouter.add(print, '*')\n")
    monkeypatch.setenv("RECEIVER_HANDLERS", "own:router")
    seen = seen_at(columns, *args)
    piped = seen_at(0, *args)

    assert max(map(cells, seen.splitlines())) <= columns < max(map(cells, piped.splitlines()))
    assert "".join(seen.replace("|", "").split()) == "".join(piped.replace("|", "").split())


@pytest.mark.usefixtures("long_rows")
def test_an_error_is_kept_where_its_column_has_no_room(seen_at: Seen) -> None:
    """It stands below its row, with a mark if it is cut."""
    lines = seen_at(60, "work-items", "list").splitlines()

    assert lines[2].startswith("    ValueError: 日本語")
    assert lines[2].rstrip().endswith("…")


@pytest.mark.usefixtures("long_rows")
def test_below_60_columns_each_row_is_a_record(seen_at: Seen) -> None:
    """Every value is there in full, on a line of its own."""
    first, second = seen_at(59, "work-items", "list").split("\n\n")

    assert "\nhandler      handlers.chat.tell\n" in first
    assert "ValueError: 日本語のとても長い説明 " * 10 in first
    assert "\njob_id       日本語のジョブ\n" in second


@pytest.mark.usefixtures("long_rows")
def test_wide_shows_all_columns_in_full(seen_at: Seen) -> None:
    """Also on a terminal that is narrower."""
    head, *rows = seen_at(50, "events", "list", "--wide").splitlines()

    assert head.split() == [
        "received",
        "type",
        "id",
        "job_id",
        "state",
        "reported",
        "duplicates",
        "size",
        "subject",
    ]
    assert "monitor.check.completed" in rows[1]


@pytest.mark.parametrize("listing", [*LISTINGS, ("monitors", "list"), ("tail",), ("drift",), ("actions",)])
def test_the_help_names_columns_of_the_listing(
    listing: tuple[str, ...], configured: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same that a shell offers."""
    assert run(receiver.main, [*listing, "--help"]) == 0
    named = re.search(r"Only these columns, such as (\w+),(\w+)\.", " ".join(capsys.readouterr().out.split()))
    assert named is not None

    context = receiver.make_context("receiver", [*listing], resilient_parsing=True)
    command: click.Command = receiver
    for word in listing:
        assert isinstance(command, click.Group)
        command = command.get_command(context, word) or command
    [option] = [one for one in command.params if one.name == "columns"]
    titles = [item.value for item in option.shell_complete(context, "")]

    assert list(named.groups()) == titles[:2]


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize("columns", [None, 80])
def test_columns_are_chosen_by_their_titles(
    columns: int | None, seen_at: Seen, capsys: pytest.CaptureFixture[str]
) -> None:
    """They come in the order in which they were named, in a pipe and on a terminal."""
    args = ("events", "list", "--columns", "state, id")
    if columns:
        seen = seen_at(columns, *args)
    else:
        assert run(receiver.main, args) == 0
        seen = capsys.readouterr().out

    assert [line.split() for line in seen.splitlines()] == [["state", "id"], ["dead", "key-2"], ["done", "key-1"]]


def test_thousands_of_rows_line_up(configured: None, seen_at: Seen) -> None:
    """They are written a few hundred at a time, below one header."""
    fill(lambda store: store.items(450, DONE), lambda store: store.item(DEAD, type="monitor.check.completed"))

    head, *rows = seen_at(80, "events", "list", "--limit", "1000").splitlines()

    assert len(rows) == 451
    assert {row.index("key-") for row in rows} == {head.index("id ")}


@pytest.mark.usefixtures("long_rows")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--columns", "stat"), "unknown column 'stat'; did you mean state?"),
        (("--columns", "id", "--json"), "--json has all fields"),
        (("--wide", "--json"), "--json has all fields"),
    ],
)
def test_wrong_columns_are_wrong_use(
    flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names similar columns."""
    assert run(receiver.main, ["events", "list", *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_listing_in_a_pipe_does_not_load_rich(configured: None) -> None:
    """Its import takes longer than the listing itself."""
    fill(lambda store: store.item(DEAD))
    program = """
import sys
from receiver.cli.main import receiver
for words in ("events list", "work-items list", "jobs list", "work-items states"):
    receiver.main(words.split(), standalone_mode=False)
print("rich" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG, check=True)

    assert done.stderr == "False\n"
    assert "key-1" in done.stdout
