"""Ends a process some time after its parent has died, even if its interpreter is blocked."""

import ctypes
import signal
import sys
from datetime import timedelta

_PR_SET_PDEATHSIG = 1


def end_after_parent(grace: timedelta) -> None:
    """Ask the kernel to end this process when its parent has been dead for the grace time, or slightly longer.

    C code that keeps the interpreter lock can block all threads of this process; then only the kernel can end it.
    On systems other than Linux this does nothing.
    """
    if sys.platform == "linux":
        arm(min(max(round(grace.total_seconds() + 0.5), signal.SIGRTMIN), signal.SIGRTMAX))


def arm(number: int) -> None:
    """Ask for the signal `number` at the parent's death. This process then ends after `number` seconds.

    A signal handler in Python would wait for the interpreter lock. So the handler is libc's function alarm(). The
    system calls it with the number of the signal, and alarm() sends SIGALRM after this number of seconds. POSIX
    allows alarm() in a signal handler (System Interfaces, 2.4.3).
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal.restype = ctypes.c_void_p
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    libc.signal(number, ctypes.cast(libc.alarm, ctypes.c_void_p))
    libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
