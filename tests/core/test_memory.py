"""The limit on memory: the machine's, or a container's where that is less."""

import os
from pathlib import Path

import pytest

from receiver.runtime.processes import memory_limit

MEBIBYTE = 1024 * 1024
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/\n", {"memory.max": f"{300 * MEBIBYTE}\n"}, 300 * MEBIBYTE),
        ("0::/\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/\n", {"memory.max": f"{MACHINE * 2}\n"}, MACHINE),
        ("0::/a.slice/b.service\n", {"a.slice/b.service/memory.max": f"{7 * MEBIBYTE}"}, 7 * MEBIBYTE),
        (
            "0::/a.slice/b.service\n",
            {"a.slice/b.service/memory.max": "max", "a.slice/memory.max": f"{9 * MEBIBYTE}"},
            9 * MEBIBYTE,
        ),
        ("4:memory:/docker/ab\n", {"memory/docker/ab/memory.limit_in_bytes": f"{8 * MEBIBYTE}"}, 8 * MEBIBYTE),
        ("4:memory:/docker/ab\n", {"memory/memory.limit_in_bytes": f"{8 * MEBIBYTE}"}, 8 * MEBIBYTE),
        ("4:cpu:/docker/ab\n", {}, MACHINE),
        (None, {"memory.max": f"{6 * MEBIBYTE}"}, 6 * MEBIBYTE),
        (None, {}, MACHINE),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, own: str | None, files: dict[str, str], limit: int) -> None:
    """Of the machine, the own control group and those around it, in either version."""
    cgroups, told = tmp_path / "cgroup", tmp_path / "own"
    for name, text in files.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(text)
    if own is not None:
        told.write_text(own)

    assert memory_limit(cgroups=cgroups, own=told) == limit
