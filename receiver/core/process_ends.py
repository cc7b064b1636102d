"""How a process of ours ended, in words."""

import signal


def end_of(code: int) -> str:
    """Describe an exit code as Python has it: negative for a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"killed by signal {-code}"
