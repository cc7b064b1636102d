"""What `receiver demo` says, as a terminal shows it."""

import io
import os
import pty
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.text import Text

_COLUMNS = 100
_BAR = "━"
"""A bar of progress is drawn many times. The picture shows the last."""
_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>receiver demo</title><style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
  line-height: {line_height}px; }}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif; }}
{styles}
</style><defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""
"""rich's own frame loads a font from another host: https://rich.readthedocs.io/en/stable/console.html#exporting-svgs."""


def make(folder: Path) -> None:
    """Run the demo on a terminal, and write `demo.svg` into a folder."""
    with tempfile.TemporaryDirectory() as empty:
        written = record((sys.executable, "-m", "receiver", "demo"), cwd=empty).splitlines()
    lines = [line for line, after in pairwise([*written, ""]) if _BAR not in line or _BAR not in after]
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ receiver demo"))
    for line in lines:
        console.print(Text.from_ansi(line.replace(sys.prefix, ".venv")))  # as in the README, on any machine
    console.save_svg(str(folder / "demo.svg"), title="receiver demo", code_format=_FRAME, unique_id="demo")


def record(command: tuple[str, ...], *, cwd: str) -> str:
    """Run a command on a terminal of its own, and return what it wrote there."""
    ours, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment, cwd=cwd)
    os.close(its)
    written = bytearray()
    while part := _read(ours):
        written += part
    os.close(ours)
    if process.wait():
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{written.decode()}")
    return written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux reports the end of the last process on a terminal as EIO
        return b""
