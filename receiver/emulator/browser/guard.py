"""A process between the emulator and a program. It bounds the program, and no process of it survives.

`python guard.py EMULATOR FOLDER MEMORY KIND -- PROGRAM ARGUMENT...` runs a program in FOLDER until it ends, or
until process EMULATOR ends for any reason. Then every process below this one is killed, and FOLDER is removed.
If the processes use more than MEMORY bytes, the largest that shows pages is killed, else the largest.
KIND is `browser` for Chromium, or `code:PORT:PATH:PATH...` for code of a caller: it reads only programs and these
paths, writes only into FOLDER, and connects only to that port.
`python guard.py --probe` prints `sandbox` if Chromium's sandbox can work here.

The file runs by itself, on the standard library alone: it has to start quickly, and may become another user.
"""

import contextlib
import ctypes
import os
import pwd
import runpy
import select
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # pragma: no cover - Windows cannot limit it
    resource = None  # type: ignore[assignment]

_CONFINEMENT: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("confinement.py")))
MARK = "guarded"
"""A file in the folder; its removal ends everything."""
_MAX_PROCESSES = 250
_CONFINED_NO = 126
_LOOK_SECONDS = 0.3
_FILE_BYTES = 1 << 30
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_NEW_USER, _NEW_PID, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_PIPES = (3, 4)
"""The pipes of Chromium's `--remote-debugging-pipe`."""


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code."""
    if arguments == ["--probe"]:
        sys.stdout.write("sandbox" if _can_sandbox() else "none")
        return 0
    emulator, folder, memory, kind, _, *command = arguments
    outer = os.getpid()
    guard = os.fork()
    if guard:  # it may be killed together with all of its group
        _close_pipes(kind)
        return os.waitstatus_to_exitcode(os.waitpid(guard, 0)[1])
    os.setsid()
    _control_process(_SET_CHILD_SUBREAPER, 1)
    try:
        return _run(command, kind, Path(folder), [int(emulator), outer], int(memory))
    finally:
        _kill_all()
        if kind == "browser" or not _lives(int(emulator)):  # the emulator reads what code has left there
            shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], kind: str, folder: Path, others: list[int], memory: int) -> int:
    user = _other_user() if kind == "browser" else None
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    mark = folder / MARK
    mark.touch()
    guard = os.getpid()
    program = os.fork()
    if program == 0:
        try:
            _limit()
            if kind == "browser":
                _become_chromium(command, folder, user, guard)
            else:
                _become_code(command, folder, kind, guard)
        finally:
            os._exit(127)
    _close_pipes(kind)
    return _watch(program, others, memory, mark)


def _close_pipes(kind: str) -> None:
    for pipe in _PIPES if kind == "browser" else ():
        os.close(pipe)


def _limit() -> None:
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))


def _become_chromium(command: list[str], folder: Path, user: pwd.struct_passwd | None, guard: int) -> None:
    if user is not None:
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    _control_process(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guard:
        return
    os.chdir(folder)
    home = str(folder)
    names = ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    # Chromium has its own sandbox for pages; this keeps its other processes from the files of people.
    programs, devices = _CONFINEMENT["PROGRAMS"], _CONFINEMENT["DEVICES"]
    _CONFINEMENT["confine"]((*programs, str(Path(command[0]).parent), "/sys"), (home, "/proc", *devices), None)
    for pipe in _PIPES:
        os.set_inheritable(pipe, True)
    os.execve(command[0], [*command, f"--user-data-dir={home}/profile"], kept | dict.fromkeys(names, home))  # noqa: S606


def _become_code(command: list[str], folder: Path, kind: str, guard: int) -> None:
    _control_process(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guard:
        return
    os.chdir(folder)
    _, port, *readable = kind.split(os.pathsep)
    programs, devices = _CONFINEMENT["PROGRAMS"], _CONFINEMENT["DEVICES"]
    if not _CONFINEMENT["confine"]((*programs, *readable), (str(folder), *devices), [int(port)]):
        os._exit(_CONFINED_NO)
    _CONFINEMENT["drop_capabilities"]()
    os.execv(command[0], command)  # noqa: S606


def _watch(program: int, others: list[int], memory: int, mark: Path) -> int:
    """Return the exit code of the program, or 1 if one of the other processes ended or the mark is gone."""
    poll = select.poll()
    ends = set()
    for process in (program, *others):
        with contextlib.suppress(AttributeError):  # only Linux has them
            try:
                end = os.pidfd_open(process)
            except ProcessLookupError:
                return 1
            poll.register(end, select.POLLIN)
            if process != program:
                ends.add(end)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    while True:
        happened = {end for end, _ in poll.poll(_LOOK_SECONDS * 1000)}
        if happened & ends or not all(map(_lives, others)) or not mark.exists():
            return 1
        with contextlib.suppress(ChildProcessError):
            done, status = os.waitpid(program, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
        _bound_memory(memory)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _bound_memory(memory: int) -> None:
    """If all together use too much memory, kill the largest process that shows pages, else the largest."""
    sizes = {process: _own_bytes(process) for process in _below(os.getpid())}
    if len(sizes) > _MAX_PROCESSES:
        sys.exit(1)
    if sum(sizes.values()) <= memory:
        return
    showing = [process for process in sizes if b"--type=renderer" in _command_line(process)]
    largest = max(showing or sizes, key=lambda process: sizes[process])
    with contextlib.suppress(ProcessLookupError):
        os.kill(largest, signal.SIGKILL)


def _kill_all() -> None:
    """Kill every process below this one, and those that they still start meanwhile."""
    for _ in range(100):
        below = list(_below(os.getpid()))
        for process in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0 if below else os.WNOHANG)[0]:
                pass
        if not below:
            return


def _below(process: int) -> Iterator[int]:
    """Yield the descendants of a process. Orphans among them have become children of this one."""
    children: dict[int, list[int]] = {}
    for entry in _processes():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(entry)
    waiting = [process]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            yield child
            waiting.append(child)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - it is many times faster
    except OSError:
        return []  # no Linux: Chromium ends when its pipes close


def _own_bytes(process: int) -> int:
    """Return the memory that a process does not share."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _other_user() -> pwd.struct_passwd | None:
    """Return the user that Chromium runs as if this process is root, whom it refuses its sandbox."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        return None


def _can_sandbox() -> bool:
    """Return whether a process can make the namespaces that the sandbox consists of."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            user = _other_user()
            if user is not None:
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            # Some systems allow the first one, and nothing within it.
            library = ctypes.CDLL(None, use_errno=True)
            made = os.geteuid() != 0 and library.unshare(_NEW_USER) == 0
            code = 0 if made and library.unshare(_NEW_PID | _NEW_NETWORK) == 0 else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _control_process(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
