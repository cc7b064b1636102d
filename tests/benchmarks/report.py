"""Tables for people and JSON for machines, made of the same rows."""

import json
import os
import platform
import sqlite3
import statistics
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

Row = Mapping[str, object]


def say(line: str = "") -> None:
    """Write a line that is seen at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def table(title: str, rows: Sequence[Row]) -> None:
    """Print rows under the names of their fields; numbers are rounded for the eye and stand to the right."""
    say(f"\n{title}")
    if not rows:
        return
    names = list(rows[0])
    cells = [[_shown(row[name]) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[place]) for line in cells)) for place, name in enumerate(names)]
    right = [isinstance(rows[0][name], int | float) for name in names]
    for line in (names, *cells):
        columns = zip(line, widths, right, strict=True)
        say("  " + "  ".join(f"{text:{'>' if number else '<'}{width}}" for text, width, number in columns).rstrip())


def write_json(path: Path | None, sections: Mapping[str, object]) -> None:
    """Write everything that was measured, with what it was measured on, if a file was asked for."""
    if path is not None:
        path.write_text(json.dumps({"machine": machine(), **sections}, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    packages = ("crawl-receiver", "uvicorn", "starlette", "httptools", "aiosqlite", "fastapi", "huey")
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "python_configured": sysconfig.get_config_var("CONFIG_ARGS"),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: version(name) for name in packages if find_spec(name.replace("crawl-", ""))},
    }


def middle(rows: Iterable[Mapping[str, float]], name: str) -> float:
    """Return the median of one field over several rounds."""
    return statistics.median(row[name] for row in rows)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor()
    lines = info.read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
