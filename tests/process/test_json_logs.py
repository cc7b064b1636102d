"""With JSON logs every line of a program is an object, also what is written before the settings are read."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CRASHING = """
import threading, warnings
from receiver.cli.common.settings import load_logged_settings

load_logged_settings({"json_logs": True})
warnings.warn("careful")
thread = threading.Thread(target=lambda: 1 / 0, name="poller")
thread.start()
thread.join()

class Bad:
    def __del__(self):
        raise KeyError("in del")

Bad()
raise ValueError("the end")
"""


def lines(folder: Path, *arguments: str, **environment: str) -> list[dict[str, Any]]:
    """Run Python with these arguments in a folder and return the lines of standard error."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert done.returncode != 0
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_crashes_and_warnings_are_lines(tmp_path: Path) -> None:
    """Of the program, of a thread, and what Python cannot raise."""
    warned, thread, ignored, crashed = lines(tmp_path, "-c", CRASHING)

    assert (warned["event"], warned["text"]) == ("python_warning", "careful")
    assert (thread["event"], thread["where"]) == ("thread_crashed", "poller")
    assert thread["exception"].endswith("ZeroDivisionError: division by zero")
    assert ignored["event"] == "exception_ignored"
    assert ignored["exception"].endswith("KeyError: 'in del'")
    assert crashed["event"] == "crashed"
    assert crashed["exception"].endswith("ValueError: the end")


@pytest.mark.parametrize("command", ["serve", "work"])
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_an_error_in_the_settings_is_a_line(tmp_path: Path, command: str, way: str) -> None:
    """A flag and a variable are known before the settings are read."""
    flags = ["--json-logs"] if way == "flag" else []
    asked = {"RECEIVER_JSON_LOGS": "true"} if way == "variable" else {}
    (line,) = lines(tmp_path, "-m", "receiver", command, *flags, RECEIVER_THREADS="many", **asked)

    assert (line["event"], line["level"]) == ("command_failed", "error")
    assert "RECEIVER_THREADS" in line["reason"]


def test_handlers_that_do_not_import_make_lines(tmp_path: Path) -> None:
    """Both the error with its traceback and the end of the command."""
    (tmp_path / "handlers.py").write_text("x = 1\n1 / 0\n")
    told, end = lines(tmp_path, "-m", "receiver", "work", "--json-logs")

    assert (told["event"], end["event"]) == ("handlers_do_not_import", "command_failed")
    assert end["reason"] == "handlers does not import: ZeroDivisionError: division by zero (handlers.py:2)"
