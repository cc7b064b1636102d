"""Running a command again whenever a Python file changes: the inner loop of writing a handler."""

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


def run_and_watch(arguments: Sequence[str], *, yes: bool) -> int:
    """Show the command's plan, ask, and run it in a process of its own, again after every change; until Ctrl-C.

    Watched are the Python files below this folder, but those in hidden folders and virtual environments.
    """
    # -B: a compiled module is taken for current when its source has the same size and second of change.
    command = [sys.executable, "-B", "-m", "receiver", *(one for one in arguments if one != "--reload")]
    code = subprocess.run([*command, "--dry-run"], check=False).returncode  # noqa: S603 - our own command line
    if code != OK:
        return code
    if not agreed("Run the handlers here and now, and again after every change?", yes=yes):
        return FAILED
    while True:
        before = _files(Path.cwd())
        running = subprocess.Popen([*command, "--yes", "--planned"])  # noqa: S603
        try:
            changed = _wait_for_change(before, running)
        finally:
            running.terminate()
            running.wait()
        note(f"\n── {escape_controls(changed)} changed; once more")


def _wait_for_change(before: Files, running: "subprocess.Popen[bytes]") -> str:
    told = False
    while True:
        now = _files(Path.cwd())
        if now != before:
            return _difference(before, now)
        if running.poll() is not None and not told:
            note("── waiting for a change; Ctrl-C ends")
            told = True
        time.sleep(_POLL_SECONDS)


def _difference(before: Files, now: Files) -> str:
    different = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return ", ".join(str(path.relative_to(Path.cwd())) for path in different[:3])


def _files(folder: Path) -> Files:
    return dict(_python_files(folder))


def _python_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the Python files below a folder with when each was changed last, in nanoseconds."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return  # it is gone, or not for us
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
            continue  # it went away while we looked
