"""Run a command again whenever a Python file changes, for somebody who writes a handler."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from receiver.cli.common.confirm import agreed
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.output import note
from receiver.core.text import escape_controls

_POLL_SECONDS = 0.3
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Files = Mapping[Path, int]


def run_and_watch(plan: Sequence[str], run: Sequence[str], *, yes: bool) -> int:
    """Run the command `plan`, ask, and then run the command `run` again after every change, until Ctrl-C.

    Both are arguments of `receiver`, and run in their own process.
    It watches the Python files below this folder, except in hidden folders and virtual environments.
    """
    # -B: Python uses a compiled module if its source has the same size and was changed in the same second.
    program = [sys.executable, "-B", "-m", "receiver"]
    code = subprocess.run([*program, *plan], check=False).returncode  # noqa: S603 - our own command line
    if code != OK:
        return code
    if not agreed("Run the handlers here now, and again after every change?", yes=yes):
        return FAILED
    while True:
        before = _files(Path.cwd())
        running = subprocess.Popen([*program, *run])  # noqa: S603
        try:
            changed = _wait_for_change(before, running)
        finally:
            running.terminate()
            running.wait()
        note(f"\n── {escape_controls(changed)} changed; running again")


def _wait_for_change(before: Files, running: "subprocess.Popen[bytes]") -> str:
    is_noted = False
    while True:
        now = _files(Path.cwd())
        if now != before:
            return _difference(before, now)
        if running.poll() is not None and not is_noted:
            note("── waiting for a change; Ctrl-C stops")
            is_noted = True
        time.sleep(_POLL_SECONDS)


def _difference(before: Files, now: Files) -> str:
    different = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return ", ".join(str(path.relative_to(Path.cwd())) for path in different[:3])


def _files(folder: Path) -> Files:
    return dict(_python_files(folder))


def _python_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the Python files below a folder, each with its time of change in nanoseconds."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return  # it was deleted, or we may not read it
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _SKIPPED:
            continue
        try:
            if entry.is_dir() and not entry.is_symlink():
                yield from _python_files(entry)
            elif entry.suffix == ".py":
                yield entry, entry.stat().st_mtime_ns
        except OSError:
            continue  # it was deleted meanwhile
