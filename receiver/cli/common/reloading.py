"""Changes of Python files while a handler is written, and a command that runs again after each change."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from watchfiles import Change, awatch

from receiver.cli.common.confirm import agreed
from receiver.cli.common.exit_codes import FAILED, OK
from receiver.cli.common.output import note
from receiver.core.text import escape_controls, first_of
from receiver.errors import ConfigurationError
from receiver.worker.upkeep.supervisor import NO_BYTECODE

_STEP_MS = 50
"""A change is reported when nothing else has changed for this time: an editor may write a file in several steps."""
_LONGEST_MS = 500
"""A change is reported after this time at the latest: the database beside the code may change without a pause."""
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


async def code_changes(folder: Path) -> AsyncIterator[str]:
    """Yield the names of Python files that have changed below a folder, at most three, whenever some have changed.

    A new folder is named instead of the files in it. `folder` is absolute. Watching begins with the first step, and
    nothing is missed between two. Files in hidden folders, virtual environments and `node_modules` are left out.
    Raises ConfigurationError if the system cannot watch the folder.
    """

    def is_code(path: PurePath) -> bool:
        parts = path.relative_to(folder).parts
        return path.suffix == ".py" and not any(part.startswith(".") or part in _SKIPPED for part in parts)

    def brings_code(change: Change, name: str) -> bool:
        path = Path(name)
        if change is Change.added and path.is_dir():  # the files that it has already are not reported
            return any(is_code(inner) for inner in path.rglob("*.py"))
        return is_code(path)

    try:
        async for changes in awatch(folder, watch_filter=brings_code, debounce=_LONGEST_MS, step=_STEP_MS):
            names = sorted({str(PurePath(path).relative_to(folder)) for _, path in changes})
            yield escape_controls(first_of(names, 3))
    except OSError as exc:  # for example too many watched folders; then polling works
        raise ConfigurationError(
            f"cannot watch {folder} for changes: {exc}; WATCHFILES_FORCE_POLLING=true polls the files instead"
        ) from exc


def run_and_watch(plan: Sequence[str], run: Sequence[str], *, yes: bool) -> int:
    """Run the command `plan`, ask, and then run the command `run` again after every change, until Ctrl-C.

    Both are arguments of `receiver`, and run in their own process.
    """
    program = [sys.executable, "-m", "receiver"]
    environment = {**os.environ, **NO_BYTECODE}
    code = subprocess.run([*program, *plan], check=False, env=environment).returncode  # noqa: S603 - our own command
    if code != OK:
        return code
    if not agreed("Run the handlers here now, and again after every change?", yes=yes):
        return FAILED
    asyncio.run(_run_after_every_change([*program, *run], environment))
    return OK


async def _run_after_every_change(command: Sequence[str], environment: dict[str, str]) -> None:
    changes = code_changes(Path.cwd())
    while True:
        change = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)  # watching begins before the command reads the code
        running = await asyncio.create_subprocess_exec(*command, env=environment)
        end = asyncio.ensure_future(running.wait())
        try:
            await asyncio.wait([change, end], return_when=asyncio.FIRST_COMPLETED)
            if not change.done():
                note("── waiting for a change; Ctrl-C stops")
            changed = await change
        finally:
            with suppress(ProcessLookupError):
                running.kill()  # at SIGTERM a replay would first finish its event, with the code from before
            await running.wait()
        note(f"\n── {changed} changed; running again")
