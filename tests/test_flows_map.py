"""The flows that CONTRIBUTING.md lists are those that run."""

import json
import subprocess
import sys

import pytest

from tests.doubles import LONG
from tests.flows_map import CONTRIBUTING, ROOT, TITLES, Flow, listed, shown

MOST_FILES = {"request": 21, "delivery": 32, "replay": 62}
"""How many files somebody has to open to follow a flow, at most."""


@pytest.fixture(scope="module")
def traced() -> dict[str, Flow]:
    """The flows, traced in a process of their own."""
    if not hasattr(sys, "monitoring"):
        pytest.skip("sys.monitoring needs Python 3.12")
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows_map", "--json"],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
        cwd=ROOT,
    )
    return {
        name: Flow([[(file, function) for file, function in run] for run in runs])
        for name, runs in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("name", TITLES)
def test_the_files_are_those_that_run(name: str, traced: dict[str, Flow]) -> None:
    """A file that runs in every run is listed, and each that is listed ran: `python -m tests.flows_map --write`."""
    files = set(listed(CONTRIBUTING.read_text(encoding="utf-8"))[name])

    assert {file for file, _ in traced[name].always} <= files <= {file for file, _ in traced[name].ever}


@pytest.mark.parametrize("name", TITLES)
def test_the_functions_that_are_listed_run(name: str, traced: dict[str, Flow]) -> None:
    """A function that is renamed, moved or no longer called has to leave the list."""
    listing = listed(CONTRIBUTING.read_text(encoding="utf-8"))[name]

    assert {(file, one) for file, functions in listing.items() for one in functions} - traced[name].ever == set()


@pytest.mark.parametrize("name", TITLES)
def test_a_flow_stays_short(name: str) -> None:
    """A reader opens few files."""
    assert 0 < len(listed(CONTRIBUTING.read_text(encoding="utf-8"))[name]) <= MOST_FILES[name]


def test_what_is_shown_can_be_read_back() -> None:
    """A call that did not happen in each run is left out, and the order is that of the last run."""
    one, two, rare = ("web/a.py", "A.first"), ("core/b.py", "second"), ("core/c.py", "third")
    flow = Flow([[one, rare, two], [two, one]])

    listing = {"core/b.py": ["second"], "web/a.py": ["A.first"]}

    assert listed(shown(dict.fromkeys(TITLES, flow))) == dict.fromkeys(TITLES, listing)
