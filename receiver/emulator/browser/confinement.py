"""Shuts a process in before it runs code of others (https://docs.kernel.org/userspace-api/landlock.html).

It may read what programs need and write into its own folder; it gets no further rights, and can connect to chosen
ports only. The file runs by itself, on the standard library alone.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_BY_VERSION = 1
_NO_NEW_PRIVILEGES = 38
_CAPSET = {"x86_64": 126, "aarch64": 91, "riscv64": 91}
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, list a folder
_WRITE_FILE, _TRUNCATE, _IOCTL = 1 << 1, 1 << 14, 1 << 15
_OF_FILES = 1 << 0 | _WRITE_FILE | 1 << 2 | _TRUNCATE | _IOCTL
_BIND, _CONNECT = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1
FULL_VERSION = 4
"""The first version of Landlock that also bounds the network."""
PROGRAMS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/chromium",
    "/etc/chromium.d",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/var/cache/fontconfig",
)
"""What programs read; no files of people."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def landlock_version() -> int:
    """Return the version of Landlock; 0 without it."""
    try:
        return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), _BY_VERSION)))
    except (OSError, AttributeError):
        return 0


def can_shut_in() -> bool:
    """Return whether this system can also keep a process from the network."""
    return landlock_version() >= FULL_VERSION


def confine(read: Iterable[str], write: Iterable[str], ports: Iterable[int] | None) -> bool:
    """Shut this process in, and all that it starts; return whether that could be done.

    With `ports` it can connect to these alone, which needs FULL_VERSION of Landlock.
    """
    version = landlock_version()
    if version == 0 or (ports is not None and version < FULL_VERSION):
        return False
    libc = _libc()
    handled = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    networks = _BIND | _CONNECT if ports is not None else 0
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 and ports is not None else 0
    form, values = ("QQQ", (handled, networks, scopes)) if version >= 6 else ("QQ", (handled, networks))
    rules = struct.pack(form if version >= FULL_VERSION else "Q", *values[: 3 if version >= FULL_VERSION else 1])
    ruleset = libc.syscall(_CREATE, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset < 0:
        return False
    for paths, rights in ((read, _READ), (write, handled)):
        for path in paths:
            _allow_path(libc, ruleset, path, rights & handled)
    for port in ports or ():
        libc.syscall(_ADD, ruleset, 2, struct.pack("QQ", _CONNECT, port), 0)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    done = libc.syscall(_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)


def drop_capabilities() -> None:
    """Give up what root may do beyond others."""
    number = _CAPSET.get(os.uname().machine)
    if os.geteuid() == 0 and number is not None:
        _libc().syscall(number, struct.pack("Ii", 0x20080522, 0), bytes(24))


def _allow_path(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not Path(path).is_dir():
            rights &= _OF_FILES
        libc.syscall(_ADD, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
