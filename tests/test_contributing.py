"""CONTRIBUTING.md names things that exist: files, folders, and every room of the package."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_path_exists() -> None:
    """A path in a code span is relative to the repository, or to the package."""
    paths = {path for path in re.findall(r"`([\w./-]+/[\w./-]*|\w+\.(?:py|md))`", TEXT) if path[:5] != ".venv"}

    assert {path for path in paths if not ((ROOT / path).exists() or (ROOT / "receiver" / path).exists())} == set()


def test_the_map_shows_every_room() -> None:
    """No more and no fewer than the package has."""
    table = TEXT.partition("## The map")[2].partition("`tests/` has")[0]
    rooms = {path.name for path in (ROOT / "receiver").iterdir() if path.is_dir() and path.name[0] != "_"}

    assert {room.rstrip("/") for room in re.findall(r"`(\w+/)`", table)} - {"receiver"} == rooms
