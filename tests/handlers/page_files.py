"""Reads what the page handler wrote."""

import json
from pathlib import Path
from typing import Any

PRICES = "https://example.com/prices"


def header_of(path: Path) -> dict[str, Any]:
    """Return the front matter. Every value is a JSON scalar, which YAML reads alike."""
    _, head, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    return {line.partition(": ")[0]: json.loads(line.partition(": ")[2]) for line in head.splitlines()}


def body_of(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("---\n", 2)[2].removeprefix("\n")


def files_in(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name[0] != "."
    )
