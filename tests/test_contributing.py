"""CONTRIBUTING.md and the maps of packages name things that exist: files, folders, modules, and every room."""

import ast
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


def test_the_map_of_a_package_names_modules_that_exist() -> None:
    """The first lines of a package are a list of what is inside, each module in a code span."""
    maps = {
        path.parent: text
        for path in (ROOT / "receiver").rglob("__init__.py")
        if "\n- `" in (text := ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    }
    missing = {
        f"{package.name}: {name}"
        for package, text in maps.items()
        for name in re.findall(r"`(\w+)`", text)
        if not ((package / name).is_dir() or (package / f"{name}.py").exists())
    }

    assert len(maps) >= 6
    assert missing == set()
