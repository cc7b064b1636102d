import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["receiver.testing"]

# How fast a machine is says nothing about the code, so no example has a deadline. Where CI is set, Hypothesis draws
# the same examples each time, so that a change is judged by itself; every other run looks for new ones. This is its
# "ci" profile: https://hypothesis.readthedocs.io/en/latest/reference/api.html#settings.
# `python -m tests.proofs properties` looks at many more examples.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("PROPERTY_EXAMPLES", "25")),
)
settings.load_profile("any machine")


# A shell that starts tests in the background lets them ignore Ctrl-C (POSIX, Shell Command Language, 2.11), and the
# programs that they start and interrupt would do the same.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Run two tests per core: tests of programs wait for these most of the time."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the long ones, so that at the end no process waits for another."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """Give every logger the level back that it had before a test: `configure_logs` sets those of libraries."""
    before = {logger: logger.level for logger in _loggers()}
    yield
    for logger in _loggers():
        if logger.level != (level := before.get(logger, logging.NOTSET)):
            logger.setLevel(level)


def _loggers() -> list[logging.Logger]:
    named = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in named if isinstance(logger, logging.Logger))]


@pytest.fixture
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and no variable that settings are read from."""
    for name in os.environ:
        if name.upper().startswith("RECEIVER_") or name in ("PORT", "DATABASE_URL"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
