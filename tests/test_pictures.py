"""The drawings in `examples/` show what the code says now."""

import re
from html import unescape
from pathlib import Path

import pytest

from receiver.core.work_states import MOVES
from tests.pictures import way
from tests.pictures.__main__ import PICTURES, main

FOLDER = Path(__file__).parent.parent / "examples"


def test_the_picture_of_states_has_every_move() -> None:
    """Each arrow carries its causes in its title. If this fails: `python -m tests.pictures states`."""
    drawn = unescape((FOLDER / "states.svg").read_text(encoding="utf-8"))
    found = {
        (before, cause, after)
        for before, after, causes in re.findall(r"<g><title>(\w+) → (\w+): (.*?)</title>", drawn)
        for cause in causes.split(", ")
    }

    assert found == {(str(before or "made"), str(cause), str(after)) for (before, cause), after in MOVES.items()}


def test_the_way_of_a_delivery_is_the_one_that_is_drawn_now(tmp_path: Path) -> None:
    """If this fails: `python -m tests.pictures way`."""
    way.make(tmp_path)

    assert (tmp_path / "way.svg").read_text() == (FOLDER / "way.svg").read_text()


def test_pictures_load_nothing_from_elsewhere() -> None:
    """A README is read with its pictures blocked from other hosts, and offline."""
    for picture in FOLDER.glob("*.svg"):
        addresses = re.findall(r'(?:href|src|url)\W+(https?://[^"\')]+)', picture.read_text(encoding="utf-8"))
        assert addresses == [], picture


def test_a_picture_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The names that exist are shown."""
    assert main(["no-such-picture"]) == 2
    shown = capsys.readouterr().err
    assert all(name in shown for name in PICTURES)
