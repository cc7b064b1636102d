"""What a process uses, as the kernel counts it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

MIB = 2**20


@dataclass(frozen=True)
class Use:
    """What a process uses: memory now and at the highest, in MiB, and open files."""

    mib: float
    highest_mib: float
    files: int


def use_of(pid: int) -> Use:
    """Return what a process uses now (proc_pid_status(5), VmRSS and VmHWM)."""
    process = Path(f"/proc/{pid}")
    lines = (line.split() for line in (process / "status").read_text().splitlines())
    kib = {words[0]: int(words[1]) for words in lines if words[0] in ("VmRSS:", "VmHWM:")}
    return Use(kib["VmRSS:"] / 1024, kib["VmHWM:"] / 1024, len(list((process / "fd").iterdir())))


def growth(samples: Sequence[float]) -> float:
    """Return by how much a figure grew from the second quarter of a run to the last. In the first, caches fill."""
    quarter = len(samples) // 4
    return median(samples[-quarter:]) - median(samples[quarter : 2 * quarter])
