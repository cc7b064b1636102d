"""In which group of processes a program of ours starts another, and without which terminal."""

import os
import sys
from contextlib import suppress

if sys.platform == "linux":
    import fcntl
    import termios


def leave_terminal() -> None:
    """Leave the group and the terminal of the process that has forked this one, for itself and what it will start.

    Ctrl-C in the terminal does not come here, and no program here can ask somebody at the terminal: the terminal
    would stop its whole group at that. To open /dev/tty fails instead, as in a deployment.

    For the `preexec_fn` of a program that has other threads: this is a few system calls, and needs no lock.
    """
    if sys.platform != "linux":
        os.setsid()
        return
    # A session of its own would do all this. But Linux shares the processors among sessions first (sched(7), the
    # autogroup feature), so a writer in its own waits longer for one: one session for all gives 10 % more acks at
    # 1 KB with a worker.
    os.setpgrp()
    with suppress(OSError):  # there is no terminal
        terminal = os.open("/dev/tty", os.O_RDWR)
        # Only for this process, as it does not lead the session (TIOCNOTTY(2const)).
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)
