"""Which commands leave the processors to the endpoint."""

import errno
import os
import subprocess
import sys

import pytest

from receiver.cli.common.giving_way import give_way, is_reader

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has policies of scheduling")

_PROGRAM = """
import os, threading
from receiver.cli.common.giving_way import give_way

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
        ("work --workers 2", 0, [10]),
        ("backup copy.db", 0, [10]),
        ("serve", 0, []),
        ("events import bundle", 0, []),
        ("work", 1, []),
        ("work", -5, []),
        ("work", 10, []),
    ],
)
def test_workers_and_readers_have_a_lower_priority(
    monkeypatch: pytest.MonkeyPatch, command: str, before: int, added: list[int]
) -> None:
    """Unless somebody has chosen one, or the process that has started this one has it already."""
    given: list[int] = []

    def nice(increment: int) -> int:
        given.append(increment)
        return before + increment

    monkeypatch.setattr(os, "nice", nice)
    if sys.platform == "linux":
        monkeypatch.setattr(os, "sched_setscheduler", lambda *_: None)

    give_way(command.split())

    assert [one for one in given if one] == added


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

    monkeypatch.setattr(os, "nice", lambda _: 1)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_OTHER)
    monkeypatch.setattr(os, "sched_setscheduler", forbid)

    give_way(["work"])

    assert asked == [os.SCHED_BATCH]


@on_linux
def test_a_system_without_policies_does_not_stop_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As musl, the C library of Alpine, is."""

    def have_none(_process: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "nice", lambda _: 1)
    monkeypatch.setattr(os, "sched_getscheduler", have_none)

    give_way(["work"])
