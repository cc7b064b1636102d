"""`receiver replay --save` and `--compare`, run as a user runs them, on a real database."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kept import delivery
from tests.cli.replaying import KEYS, Command, handled, keep, write_handlers

pytestmark = pytest.mark.usefixtures("configured")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command with handlers that write keys to a file."""
    write_handlers(KEYS, monkeypatch)
    return Command(monkeypatch, capsys)


def save(command: Command, monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Save outcomes of handlers that return these values; an exception is raised."""
    write_valued(monkeypatch, **values)
    assert command("--save", "earlier") in (0, 1)


def write_valued(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Put handlers in place that return these values."""
    code = "".join(
        f"@router.on('*')\ndef {name}(event):\n    value = {value!r}\n"
        "    if isinstance(value, Exception): raise value\n    return value\n"
        for name, value in values.items()
    )
    write_handlers(code, monkeypatch)


def test_runs_are_compared(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal results are only counted. The exit code is 1 if a handler fails that did not fail before."""
    keep(delivery("a"))
    save(command, monkeypatch, same=1, other=1, broken=1, changed=ValueError("x"), gone=1, still=ValueError("y"))
    now = {"same": 1, "other": 2, "broken": ValueError("z"), "changed": 1, "still": ValueError("y"), "new": 1}
    write_valued(monkeypatch, **now)

    assert command("--compare", "earlier") == 1

    told = [line.partition("crawl.page")[0].strip() for line in command.out.splitlines() if " ms" in line]
    assert told == ["changed", "newly failing", "newly passing", "added"]
    assert "    before   returned 1\n    now      returned 2\n" in command.out
    assert "    before   returned 1\n    now      raised ValueError: z\n" in command.out
    assert "    before   nothing\n    now      returned 1\n" in command.out
    assert command.out.splitlines()[-7:] == [
        "compared with the earlier run",
        "              2  same",
        "              1  changed",
        "              1  newly failing",
        "              1  newly passing",
        "              1  added",
        "              1  missing",
    ]


@pytest.mark.parametrize(
    ("now", "code"),
    [({"one": 2}, 0), ({"one": ValueError("x")}, 1), ({"one": 1, "new": ValueError("x")}, 1)],
)
def test_the_exit_code_reports_new_failures(
    now: dict[str, Any], code: int, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is new if the handler succeeded before or did not run."""
    keep(delivery("a"))
    save(command, monkeypatch, one=1)
    write_valued(monkeypatch, **now)

    assert command("--compare", "earlier") == code


def test_old_failures_do_not_change_the_exit_code(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --json each line has the change."""
    keep(delivery("a"))
    save(command, monkeypatch, one=ValueError("x"))

    assert command("--compare", "earlier", "--json") == 0
    [line] = command.out.splitlines()
    assert json.loads(line)["change"] == "same"
    assert json.loads(line)["before"] == "raised ValueError: x"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            ("--save", "other.py"),
            "other.py was not written by `receiver replay --save`; it is left as it is",
        ),
        (("--compare", "other.py"), "other.py was not written by"),
        (("--save", "kept.db-locks"), "kept.db-locks belongs to the database "),
        (("--save", "none/file"), "cannot write none/file: No such file or directory"),
        (("--compare", "none"), "--compare: there is no file none"),
        (("--save", "other.py", "--compare", "./other.py"), "--save would replace the file that --compare reads"),
    ],
)
def test_wrong_files_are_refused(asked: tuple[str, ...], told: str, command: Command) -> None:
    """This happens before a handler runs, and the file does not change."""
    keep(delivery("a"))
    Path("other.py").write_text("precious")

    assert command(*asked) == 2
    assert told in command.err
    assert handled() == []
    assert Path("other.py").read_text() == "precious"


def test_a_full_disk_is_reported(command: Command) -> None:
    """The message has the file and the command that continues."""
    keep(delivery("a"))

    assert command("--save", "/dev/full") == 1
    assert "cannot write /dev/full: No space left on device" in command.err


def test_saved_results_are_not_replaced_in_silence(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second replay names the file; the JSON of its lines is not disturbed."""
    keep(delivery("a"))
    save(command, monkeypatch, one=1)
    first = command.err
    save(command, monkeypatch, one=1)

    assert "replace" not in first
    assert "earlier: these results replace those of an earlier replay" in command.err
