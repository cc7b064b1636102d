"""Which commands leave the processors to the endpoint."""

import errno
import os
import subprocess
import sys

import pytest

from receiver.cli.main import give_way, is_reader

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has policies of scheduling")

_PROGRAM = """
import os, threading
from receiver.cli.main import give_way

os.sched_setscheduler(0, os.SCHED_{before}, os.sched_param(0))
give_way(["{command}"])
seen = [os.sched_getscheduler(0)]
thread = threading.Thread(target=lambda: seen.append(os.sched_getscheduler(0)))
thread.start()
thread.join()
print(seen == [os.SCHED_{after}] * 2)
"""


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("backup copy.db", True),
        ("events export bundle", True),
        ("events list --type crawl.page", True),
        ("events import bundle", False),
        ("events prune --older-than 1d", False),
        ("jobs list", True),
        ("jobs cancel 1", False),
        ("store copy a b", True),
        ("replay --dry-run", True),
        ("replay --yes --enqueue", False),
        ("serve", False),
        ("", False),
    ],
)
def test_what_only_reads_is_known_by_its_arguments(command: str, reads: bool) -> None:
    """Commands that go through a store and only read it."""
    assert is_reader(command.split()) is reads


@pytest.mark.parametrize(
    ("command", "before", "added"),
    [
        ("work --workers 2", 0, [5]),
        ("work", 1, []),
        ("work", -5, []),
        ("work", 5, []),
        ("backup copy.db", 0, [10]),
        ("backup copy.db", 1, [10]),
        ("serve", 0, []),
        ("events import bundle", 0, []),
    ],
)
def test_workers_and_readers_have_a_lower_priority(
    monkeypatch: pytest.MonkeyPatch, command: str, before: int, added: list[int]
) -> None:
    """A worker keeps what somebody has chosen, and what the process that has started it took for it."""
    given: list[int] = []
    monkeypatch.setattr(os, "nice", given.append)
    monkeypatch.setattr(os, "getpriority", lambda *_: before)
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: None, raising=False)

    give_way(command.split())

    assert given == added


@on_linux
def test_what_a_worker_starts_has_its_priority() -> None:
    """Threads and programs."""
    program = """
import os, subprocess, sys, threading
from receiver.cli.main import give_way

try:
    os.setpriority(os.PRIO_PROCESS, 0, 0)
except PermissionError:  # who may not, and was started with a lower one, cannot try it
    sys.exit("forbidden")
give_way(["work"])
def tell():
    print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), flush=True)
thread = threading.Thread(target=tell)
thread.start()
thread.join()
subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], check=True)
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if done.stderr == "forbidden\n":
        pytest.skip("this user may not raise a priority")

    assert done.stdout == "5\n5\n"


def test_a_system_that_forbids_a_priority_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a sandbox without setpriority(2) does."""
    asked: list[int] = []

    def forbid(more: int) -> int:
        asked.append(more)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "nice", forbid)
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: None, raising=False)

    give_way(["work"])
    give_way(["jobs", "list"])

    assert asked == [5, 10]


@on_linux
@pytest.mark.parametrize(
    ("command", "before", "after"),
    [("work", "OTHER", "BATCH"), ("work", "IDLE", "IDLE"), ("serve", "OTHER", "OTHER")],
)
def test_a_worker_and_its_threads_interrupt_no_other_program(command: str, before: str, after: str) -> None:
    """Unless somebody has chosen a policy for it."""
    program = _PROGRAM.format(command=command, before=before, after=after)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"


@on_linux
def test_a_system_that_forbids_the_policy_does_not_stop_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As some sandboxes do."""
    asked: list[int] = []

    def forbid(_process: int, policy: int, _parameters: os.sched_param) -> None:
        asked.append(policy)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "nice", lambda _: 5)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_OTHER)
    monkeypatch.setattr(os, "sched_setscheduler", forbid)

    give_way(["work"])

    assert asked == [os.SCHED_BATCH]


@on_linux
def test_a_system_without_policies_does_not_stop_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As musl, the C library of Alpine, is."""

    def have_none(_process: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "nice", lambda _: 5)
    monkeypatch.setattr(os, "sched_getscheduler", have_none)

    give_way(["work"])
