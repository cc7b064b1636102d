import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["receiver.testing"]

# How fast a machine is says nothing about the code, so no example has a deadline. Where CI is set, Hypothesis draws
# the same examples each time, so that a change is judged by itself; every other run looks for new ones. This is its
# "ci" profile: https://hypothesis.readthedocs.io/en/latest/reference/api.html#settings.
# `python -m tests.proofs properties` looks at many more examples.
ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tests", ANY_MACHINE, max_examples=25)
settings.register_profile("proofs", ANY_MACHINE, max_examples=1_000, derandomize=False, database=None)
settings.load_profile("tests")


# A shell that starts tests in the background lets them ignore Ctrl-C (POSIX, Shell Command Language, 2.11), and the
# programs that they start and interrupt would do the same.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long ones, so that the others do not end with one process waiting for another."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no variable that settings are read from."""
    for name in os.environ:
        if name.upper().startswith("RECEIVER_") or name in ("PORT", "DATABASE_URL"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
