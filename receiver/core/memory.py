"""How much memory this process may use."""

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def memory_limit(*, cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Return the bytes of memory of this machine, or of the container or service, if that may use less.

    The limit of a container is that of its control group or of one around it (Linux, Documentation/admin-guide/
    cgroup-v2.rst, "memory.max", and cgroup-v1/memory.rst, "memory.limit_in_bytes").
    """
    limits = [limit for path in _limit_files(cgroups, own) if (limit := _read_limit(path)) is not None]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def _limit_files(cgroups: Path, own: Path) -> list[Path]:
    files = [cgroups / "memory.max", cgroups / "memory" / "memory.limit_in_bytes"]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return files
    for line in lines:
        _, controllers, group = line.split(":", 2)
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        root = cgroups / "memory" if controllers else cgroups
        if not controllers or "memory" in controllers.split(","):
            folder = root / group.lstrip("/")
            files += [path / name for path in (folder, *folder.parents) if path.is_relative_to(root)]
    return files


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
