"""Ending a process some time after its parent has died, even when its interpreter cannot run."""

import ctypes
import signal
import sys
from datetime import timedelta

_PR_SET_PDEATHSIG = 1


def end_after_parent(grace: timedelta) -> None:
    """Have the kernel end this process when its parent has been dead for the grace time or a little longer.

    This is for a process whose threads cannot react, since some C code holds the interpreter lock. It does nothing
    where the kernel is not Linux.
    """
    if sys.platform == "linux":
        arm(min(max(round(grace.total_seconds() + 0.5), signal.SIGRTMIN), signal.SIGRTMAX))


def arm(number: int) -> None:
    """Ask for the signal `number` at the parent's death, upon which this process has `number` seconds left.

    A signal handler in Python would wait for the interpreter lock. So libc's alarm() itself is the handler: it is
    called with the number of the signal, and takes that as seconds until SIGALRM. A signal handler may call it
    (POSIX, System Interfaces, 2.4.3).
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal.restype = ctypes.c_void_p
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    libc.signal(number, ctypes.cast(libc.alarm, ctypes.c_void_p))
    libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
